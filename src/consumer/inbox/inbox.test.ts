import fc from 'fast-check'
import { describe, expect, it, vi } from 'vitest'
import { CONSUMER_SUSPECTS_MAX } from '../../limits.ts'
import { isStorable } from '../../platform/storable.ts'
import { bodyOfText, bodyText } from '../../source/body-text.ts'
import { EnvelopeDelivery } from '../../source/envelope.ts'
import type { Delivery } from '../../source/source.ts'
import { Arrival, keyOf } from './arrival.ts'
import { Backlog } from './backlog.ts'
import { describeError } from '../../platform/describe-error.ts'
import { findHorizon } from './horizon.ts'
import { messageIdentity } from './identity.ts'
import { letterOf } from './letter.ts'
import { PositionTracker } from './positions.ts'
import { WaitingForPredecessor } from './waiting-for-predecessor.ts'

const ANY = { suspects: true }
let seq = 0

function arrival(id: string, aggregate: string | null = null, previous?: string): Arrival {
  const body = JSON.stringify({ id, source: 's', type: 't', subject: aggregate ?? undefined, previous })
  const delivery = new EnvelopeDelivery({ body, headers: {}, place: id, source: 's' }, { redelivered: false })
  return new Arrival({ delivery, consumer: 'c', message: id, problem: undefined, seq: seq++, at: 0 })
}

function throws(): never {
  throw new TypeError('cannot be read')
}

const ids = (arrivals: readonly Arrival[]): string[] => arrivals.map(({ item }) => item.message)
const pick = (backlog: Backlog, now = 0, max = 10): string[] => ids(backlog.pick(max, now, ANY.suspects))

it('however many messages wait for their predecessors, one look is due', async () => {
  const due: (() => void)[] = []
  const looks: number[] = []
  const waiting = new WaitingForPredecessor({
    clock: { now: () => 0, after: (_, callback) => (due.push(callback), () => {}) },
    holdMs: 1_000,
    async look(items) {
      looks.push(items.length)
      waiting.add(arrival('m4', 'd', 'm3'))
      return items.map(() => 'early')
    },
    ready: throws,
    giveUp: throws,
    troubled: throws,
  })
  for (const n of [1, 2, 3]) waiting.add(arrival(`m${n}`, `${n}`, `before ${n}`))
  expect(due).toHaveLength(1)
  due.pop()?.()
  await vi.waitFor(() => expect(due).toHaveLength(1))
  expect(looks).toEqual([3])
})

describe('the backlog', () => {
  it('gives one aggregate to one batch at a time, in order', () => {
    const backlog = new Backlog()
    const [a1, a2, b1] = [arrival('a1', 'a'), arrival('a2', 'a'), arrival('b1', 'b')]
    for (const one of [a1, a2, b1]) backlog.add(one)
    expect(pick(backlog, 0, 1)).toEqual(['a1'])
    expect(pick(backlog)).toEqual(['b1'])
    backlog.add(arrival('a3', 'a'))
    expect(pick(backlog)).toEqual([])
    backlog.done([a1], true)
    expect(pick(backlog)).toEqual(['a2', 'a3'])
  })

  it('a retry holds up what is behind it, and comes first again', () => {
    const backlog = new Backlog()
    const [a1, a2] = [arrival('a1', 'a'), arrival('a2', 'a')]
    backlog.add(a1)
    backlog.add(a2)
    expect(pick(backlog)).toEqual(['a1', 'a2'])
    a1.notBefore = 100
    backlog.later([a2])
    backlog.later([a1])
    expect(pick(backlog, 50)).toEqual([])
    expect(backlog.nextAt()).toBeLessThanOrEqual(100)
    expect(pick(backlog, 100)).toEqual(['a1', 'a2'])
  })

  it('one that was applied ends the wait of its successor, and of no other', () => {
    const backlog = new Backlog()
    const [a1, a2, a3] = [arrival('a1', 'a'), arrival('a2', 'a'), arrival('a3', 'a')]
    for (const one of [a1, a2, a3]) backlog.add(one)
    expect(pick(backlog)).toEqual(['a1', 'a2', 'a3'])
    a2.notBefore = 100
    backlog.later([a3])
    backlog.later([a2])
    backlog.done([a1], true)
    expect(pick(backlog, 50)).toEqual([])
    expect(pick(backlog, 100)).toEqual(['a2', 'a3'])
  })

  it('knows the bytes in hand, where a delivery tells its size', () => {
    const backlog = new Backlog()
    const all = [10, undefined, 5].map((bytes, n) => {
      const { delivery } = arrival(`m${n}`)
      Object.defineProperty(delivery, 'bytes', { value: bytes })
      return new Arrival({ delivery, consumer: 'c', message: `m${n}`, problem: undefined, seq: n, at: 0 })
    })
    for (const one of all) backlog.add(one)
    expect(backlog.bytes).toBe(15)
    expect(pick(backlog)).toHaveLength(3)
    backlog.done(all.slice(0, 2), true)
    expect(backlog.bytes).toBe(5)
  })

  it('an early one holds up only its successors', () => {
    const backlog = new Backlog()
    const [o3, o4, o1] = [arrival('o3', 'o', 'o2'), arrival('o4', 'o', 'o3'), arrival('o1', 'o', '')]
    for (const one of [o4, o3, o1]) backlog.add(one)
    // Predecessors first, whatever the order they came in.
    expect(pick(backlog)).toEqual(['o3', 'o4', 'o1'])
    for (const one of [o3, o4]) Object.assign(one, { earlySince: 0, notBefore: Infinity })
    backlog.later([o3, o4, o1])
    expect(pick(backlog)).toEqual(['o1'])
    const o2 = arrival('o2', 'o', 'o1')
    backlog.add(o2)
    backlog.done([o1], true)
    expect(pick(backlog)).toEqual(['o2'])
    backlog.done([o2], true)
    expect(pick(backlog)).toEqual(['o3'])
  })

  it('a retry of one that was early before is waited for by its time', () => {
    const backlog = new Backlog()
    const [o2, o3] = [arrival('o2', 'o', 'o1'), arrival('o3', 'o', 'o2')]
    for (const one of [o2, o3]) backlog.add(one)
    expect(pick(backlog)).toEqual(['o2', 'o3'])
    o2.earlySince = 0
    o2.waitUntil(100)
    backlog.later([o2, o3])
    expect(pick(backlog, 50)).toEqual([])
    expect(backlog.nextAt()).toBe(100)
  })

  it('whoever must run alone does', () => {
    const backlog = new Backlog()
    const [a, b] = [arrival('a'), arrival('b')]
    b.alone = true
    backlog.add(a)
    backlog.add(b)
    expect(pick(backlog)).toEqual(['a'])
    expect(pick(backlog)).toEqual(['b'])
    const [s, t] = [arrival('s'), arrival('t')]
    s.suspect = true
    backlog.add(s)
    backlog.add(t)
    expect(ids(backlog.pick(10, 0, false))).toEqual(['t'])
    expect(ids(backlog.pick(10, 0, true))).toEqual(['s'])
  })

  it('whoever must run alone does not wait for all that comes after it', () => {
    const backlog = new Backlog()
    const suspect = arrival('suspect', 's')
    suspect.suspect = true
    backlog.add(arrival('first'))
    for (const one of [suspect, arrival('second'), arrival('third'), arrival('fourth')]) backlog.add(one)
    expect(pick(backlog, 0, 2)).toEqual(['first', 'second'])
    expect(pick(backlog, 0, 2)).toEqual(['suspect'])
    backlog.later([suspect])
    expect(pick(backlog, 0, 2)).toEqual(['suspect'])
    backlog.later([suspect])
    // Another one that must run alone is under way.
    expect(ids(backlog.pick(3, 0, false))).toEqual(['third', 'fourth'])
    backlog.add(arrival('fifth'))
    backlog.add(arrival('sixth'))
    expect(ids(backlog.pick(1, 0, false))).toEqual(['fifth'])
    expect(pick(backlog, 0, 2)).toEqual(['suspect'])
    expect(pick(backlog, 0, 2)).toEqual(['sixth'])
  })

  it('suspects run together, a few at a time, with nobody else', () => {
    const backlog = new Backlog()
    const suspects = Array.from({ length: CONSUMER_SUSPECTS_MAX + 2 }, (_, i) => arrival(`s${i}`))
    for (const one of suspects) one.suspect = true
    const twice = suspects.at(-1) as Arrival
    twice.alone = true
    for (const one of [arrival('a'), ...suspects, arrival('b')]) backlog.add(one)
    expect(pick(backlog, 0, 100)).toEqual(['a', 'b'])
    backlog.add(arrival('c'))
    const first = backlog.pick(100, 0, true)
    expect(first).toEqual(suspects.slice(0, CONSUMER_SUSPECTS_MAX))
    // One batch of them at a time.
    expect(ids(backlog.pick(100, 0, false))).toEqual(['c'])
    backlog.done(first, true)
    expect([pick(backlog, 0, 100), pick(backlog, 0, 100)]).toEqual([['s16'], ['s17']])
  })

  it('a second delivery of a message in hand shares its fate', () => {
    const backlog = new Backlog()
    const first = arrival('x')
    expect([backlog.add(first), backlog.add(arrival('x'))]).toEqual([true, false])
    expect(first.deliveries).toHaveLength(2)
    expect(backlog.size).toBe(1)
    expect(backlog.drop(() => true)).toEqual([first])
    expect([backlog.size, pick(backlog)]).toEqual([0, []])
  })
})

describe('positions', () => {
  const at = (offset: number): Delivery =>
    ({ position: { partition: 'p', offset: String(offset), next: String(offset + 1) } }) as Delivery

  it('are passed up to the first that is not settled', () => {
    const tracker = new PositionTracker()
    const [a, b, c] = [at(7), at(8), at(9)] as const
    tracker.received([a, b, c, b])
    expect(tracker.after([b])).toEqual([])
    tracker.settled([b], 'of b')
    expect(tracker.reached([b])).toEqual([])
    expect(tracker.after([a])).toEqual([{ partition: 'p', next: '9', witnesses: ['of b'] }])
    expect(tracker.after([a, c])).toEqual([{ partition: 'p', next: '10', witnesses: ['of b'] }])
    tracker.settled([a], 'of a')
    const reached = [{ partition: 'p', next: '9', witnesses: ['of a', 'of b'] }]
    // Nothing is forgotten before the database was told.
    expect([tracker.reached([a]), tracker.reached([b])]).toEqual([reached, reached])
    tracker.wrote(reached)
    expect(tracker.reached([a])).toEqual([])
    expect(tracker.after([c])).toEqual([{ partition: 'p', next: '10', from: '9', witnesses: [] }])
    tracker.forget(['p'])
    expect(tracker.after([c])).toEqual([])
  })

  it('are passed in parts where very many transactions have settled them', () => {
    const tracker = new PositionTracker()
    const all = Array.from({ length: 2_500 }, (_, i) => at(i))
    tracker.received(all)
    for (const [i, one] of all.entries()) tracker.settled([one], `of ${i}`)
    const parts: string[] = []
    for (let to = tracker.reached(all); to.length > 0; to = tracker.reached(all)) {
      parts.push(...to.map(({ next }) => next))
      tracker.wrote(to)
    }
    expect(parts).toEqual(['1000', '2000', '2500'])
  })

  it('are in order, whatever order they come in', () => {
    const tracker = new PositionTracker()
    const [a, b, c, d] = [at(9), at(10), at(100), at(11)] as const
    tracker.received([a, c, b, d])
    tracker.settled([c, d, b], null)
    expect(tracker.reached([b])).toEqual([])
    // It came again, and is settled already.
    tracker.received([c])
    tracker.settled([a], null)
    expect(tracker.reached([a])).toEqual([{ partition: 'p', next: '101', witnesses: [] }])
    tracker.wrote(tracker.reached([a]))
    // What was passed may come again too.
    tracker.received([b])
    tracker.settled([b], null)
    expect(tracker.reached([b])).toEqual([{ partition: 'p', next: '11', from: '101', witnesses: [] }])
  })

  it('cost the same however many wait behind one that is not settled', () => {
    const tracker = new PositionTracker()
    const many = 100_000
    const all = Array.from({ length: many }, (_, i) => at(i))
    const began = performance.now()
    tracker.received(all)
    for (const one of all.slice(1)) tracker.settled([one], 'together')
    tracker.settled(all.slice(0, 1), null)
    expect(tracker.reached(all.slice(0, 1))).toMatchObject([{ next: String(many), witnesses: ['together'] }])
    expect(performance.now() - began).toBeLessThan(3_000)
  })
})

describe('an error', () => {
  const make = (text: string, cause?: unknown): Error => new Error(text, { cause })

  it('has the fingerprint of its kind, whatever ids it carries', () => {
    const [one, two] = ['order 17 of "ann"', 'order 99 of "bob"'].map((text) => describeError(make(text)))
    expect(one?.fingerprint).toBe(two?.fingerprint)
    expect(describeError(make('stock is empty')).fingerprint).not.toBe(one?.fingerprint)
    expect(describeError(make('order 1 of "x"', new TypeError('deep'))).fingerprint).not.toBe(one?.fingerprint)
  })

  it('is described whatever it is', () => {
    const loop = make('loop')
    loop.cause = loop
    for (const odd of [undefined, null, 1, 'text', { a: 1n }, loop, make('n\0ul'), make('x'.repeat(9_000))]) {
      const { line, causes } = describeError(odd)
      expect(line.length).toBeLessThanOrEqual(500)
      expect(line).not.toContain('\0')
      expect(JSON.parse(causes)).toBeInstanceOf(Array)
    }
  })
})

describe('what every database can hold', () => {
  const odd = fc.oneof(
    fc.constantFrom('\0', '\ud83d', '\ude00\ud83d', 'a\\u0000', 'base64:AA', 'utf16:AA', 'b'),
    fc.anything(),
  )

  it('is the description of whatever was thrown', () => {
    fc.assert(
      fc.property(odd, odd, odd, (thrown, message, cause) => {
        for (const error of [thrown, Object.assign(new Error('a', { cause }), { message, code: thrown })]) {
          const { line, fingerprint, causes } = describeError(error)
          expect([line, fingerprint, causes].every(isStorable)).toBe(true)
          expect(JSON.parse(causes)).toBeInstanceOf(Array)
        }
      }),
      { numRuns: 2_000 },
    )
  })

  it('is a letter of any delivery, known by what is stored of it', () => {
    const sane = { id: 'i', source: 's', type: 't', aggregate: 'a', previous: null, event: {}, body: '{}', headers: {} }
    const rest = { delivered: 1, redelivered: false, traceparent: undefined }
    const changes: [changes: object, problem: boolean][] = [
      [{}, false],
      [{ id: 'i\0' }, true],
      [{ id: '\ud83d' }, true],
      [{ source: '\0', type: '\ud83d' }, true],
      [{ aggregate: '\0', tenant: '\0', traceparent: '\ud83d', headers: { '\0': '\0', n: 5, big: 5n } }, false],
      [{ body: '\0' }, false],
      [{ headers: null }, false],
      [Object.defineProperty({}, 'body', { get: throws, enumerable: true }), false],
      [Object.defineProperty({}, 'event', { get: throws, enumerable: true }), true],
    ]
    for (const [change, problem] of changes) {
      const delivery = Object.create({ ...sane, ...rest }, Object.getOwnPropertyDescriptors(change)) as Delivery
      const key = keyOf(undefined, delivery)
      expect(key.problem !== undefined).toBe(problem)
      const it = new Arrival({ delivery, consumer: 'c', seq: 0, at: 0, ...key })
      const letter = letterOf(it, { state: 'parked', reason: 'failed', error: new Error('no') }, () => '\0')
      for (const text of Object.values(letter)) if (typeof text === 'string') expect(isStorable(text)).toBe(true)
      expect(JSON.parse(letter.headers)).toBeTypeOf('object')
      const { source, message } = letter
      expect(messageIdentity({ consumer: 'c', source, message }).id).toBe(letter.id)
    }
  })

  it('is the id of what cannot be read: no key is made of an event that is not there', () => {
    const asked: unknown[] = []
    const key = (event: unknown): string => {
      asked.push(event)
      return String((event as { data?: { n: number } } | undefined)?.data?.n)
    }
    const read = (body: string, place: string): Delivery =>
      new EnvelopeDelivery({ body, headers: {}, place, source: 'broker' }, { redelivered: false })
    const [one, other] = [keyOf(key, read('not json', 'q/1')), keyOf(key, read('[]', 'q/2'))]
    expect(asked).toEqual([])
    expect([one, other]).toEqual([
      { message: 'q/1', problem: 'the message is not JSON' },
      { message: 'q/2', problem: 'the message is not a CloudEvent' },
    ])
    const readable = '{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"n":7}}'
    expect(keyOf(key, read(readable, 'q/3'))).toEqual({ message: '7', problem: undefined })
  })

  it('is a body, and comes back as it was', () => {
    const units = fc.array(fc.integer({ min: 0, max: 0xffff })).map((of) => String.fromCharCode(...of))
    const texts = fc.oneof(units, fc.string(), fc.constantFrom('base64:AA', 'utf16:AA', '', '\0'))
    fc.assert(
      fc.property(texts, fc.uint8Array(), (text, bytes) => {
        expect(isStorable(bodyText(text)) && isStorable(bodyText(bytes))).toBe(true)
        expect(bodyOfText(bodyText(text)).toString()).toBe(text)
        const back = bodyOfText(bodyText(bytes))
        // A mark of the byte order says nothing.
        expect(Buffer.from(back as Uint8Array).toString('hex')).toBe(
          Buffer.from(bytes)
            .toString('hex')
            .replace(/^efbbbf/, ''),
        )
      }),
      { numRuns: 2_000 },
    )
  })
})

describe('the horizon', () => {
  const day = 86_400_000
  const of = { source: 's', redeliversForMs: day, retriesForMs: 1_000, rememberForMs: 2 * day }

  it('is short where a redelivery or a retry can come after it', () => {
    expect(findHorizon(of)).toBeNull()
    expect(findHorizon({ ...of, rememberForMs: day / 2 })).toMatchObject({ kind: 'short' })
    expect(findHorizon({ ...of, retriesForMs: 3 * day })).toMatchObject({ kind: 'short' })
    expect(findHorizon({ ...of, redeliversForMs: Infinity })).toMatchObject({ kind: 'endless' })
  })
})

describe('an envelope', () => {
  const read = (body: string | Uint8Array, headers: Record<string, string> = {}): EnvelopeDelivery =>
    new EnvelopeDelivery({ body, headers, place: 'here', source: 'broker' }, { redelivered: false })

  it('is read in structured and in binary mode', () => {
    const structured = read(
      '{"specversion":"1.0","id":"1","source":"s","type":"t","subject":"a","previous":"0","data":{"n":1}}',
    )
    const headers = { 'ce-id': '1', 'ce-source': 's', 'ce-type': 't', 'ce-subject': 'a', 'ce-previous': '0' }
    const binary = read(new TextEncoder().encode('{"n":1}'), headers)
    for (const { id, source, type, aggregate, previous, event } of [structured, binary]) {
      expect({ id, source, type, aggregate, previous }).toEqual({
        id: '1',
        source: 's',
        type: 't',
        aggregate: 'a',
        previous: '0',
      })
      expect(event).toMatchObject({ data: { n: 1 } })
    }
  })

  it.each([
    'no json',
    '[]',
    'null',
    '{"id":"","source":"s","type":"t"}',
    '{"id":1,"source":"s","type":"t"}',
    `{"id":"${'x'.repeat(256)}","source":"s","type":"t"}`,
    '{"id":"1","source":"s"}',
  ])('that cannot be read says why: %s', (body) => {
    expect(read(body)).toMatchObject({ id: 'here', source: 'broker', problem: expect.any(String) as string })
  })

  it('keeps bytes that are no text', () => {
    const { problem, body } = read(new Uint8Array([0xff, 0xfe, 0]))
    expect([problem === undefined, body]).toEqual([false, 'base64://4A'])
  })
})
