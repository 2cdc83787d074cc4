import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import type { Consumer, DeadLetter } from '../../src/index.ts'
import { describePostgres, freshDatabase } from '../support/postgres.ts'
import { BY, openRedriveWorld, temporaryFile, type Backend, type RedriveWorld } from '../redrive/world.ts'
import type { MemoryMessage } from '../../src/testing/source-contract/memory-broker.ts'

const NUL = '\0'
const HALF = '\ud83d'

/** What a handler may throw, and a part of the line that tells it. */
const THROWN: readonly [title: string, make: () => unknown, line: RegExp][] = [
  ['NUL in a message', () => new Error(`a${NUL}b`), /^Error: a\\u\{0\}b$/],
  ['the text of an escape', () => new Error('a\\u0000b'), /^Error: a\\u0000b$/],
  ['the text of our own escape', () => new Error('a\\u{0}b'), /^Error: a\\u\{5c\}u\{0\}b$/],
  ['half of a pair', () => new Error(`a${HALF}`), /^Error: a\\u\{d83d\}$/],
  ['a pair at every place where it could be cut', () => new Error('\u{1f600}'.repeat(20_000)), /^Error: \u{1f600}+…$/u],
  ['the same beside a letter', () => new Error(`x${'\u{1f600}'.repeat(20_000)}`), /^Error: x\u{1f600}+…$/u],
  ['a message that is an object', () => odd({ message: { amount: 5 } }), /^Error: \{"amount":5\}$/],
  ['a message that is a number', () => odd({ message: 5 }), /^Error: 5$/],
  ['a message that is null', () => odd({ message: null }), /^Error: null$/],
  ['a message that is a symbol', () => odd({ message: Symbol('a') }), /^Error: Symbol\(a\)$/],
  ['a message that is a bigint', () => odd({ message: 5n }), /^Error: 5$/],
  ['a name that is none', () => odd({ name: Symbol('a'), message: 'b' }), /^Symbol\(a\): b$/],
  ['a name with NUL', () => odd({ name: `a${NUL}`, message: 'b' }), /^a\\u\{0\}: b$/],
  ['a code with NUL', () => odd({ code: `a${NUL}`, message: 'b' }), /^Error: b$/],
  ['a stack that is a list', () => odd({ stack: ['a'], message: 'b' }), /^Error: b$/],
  ['a stack with NUL', () => odd({ stack: `a${NUL}\n    at b`, message: 'b' }), /^Error: b$/],
  ['a message that cannot be read', () => getter('message'), /^Error: /],
  ['a name that cannot be read', () => getter('name'), / /],
  ['a stack that cannot be read', () => getter('stack'), /^Error: b$/],
  ['a cause that cannot be read', () => getter('cause'), /^Error: b$/],
  ['NUL in a cause', () => new Error('b', { cause: new Error(`c${NUL}${HALF}`) }), /^Error: b$/],
  ['a text with NUL', () => `a${NUL}b`, /^thrown: a\\u\{0\}b$/],
  ['nothing', () => undefined, /^thrown: undefined$/],
  ['null', () => null, /^thrown: null$/],
  ['a symbol', () => Symbol('a'), /^thrown: Symbol\(a\)$/],
  ['a bigint', () => 5n, /^thrown: 5$/],
  ['a function', () => () => 5, /^thrown: /],
  ['an object with NUL', () => ({ a: NUL }), /^thrown: \{"a":"\\u0000"\}$/],
  ['an object without a prototype', () => Object.create(null) as unknown, /^thrown: \{\}$/],
  ['an object that contains itself', () => cycle(), /^thrown: \[object Object\]$/],
  ['an object that cannot be written', () => ({ toJSON: () => throws() }), /^thrown: \[object Object\]$/],
  ['a proxy that was revoked', () => revoked(), /^Error: the error cannot be read$/],
]

function odd(members: object): Error {
  const error = new Error('to be replaced')
  for (const [name, value] of Object.entries(members)) Object.defineProperty(error, name, { value })
  return error
}

function getter(name: string): Error {
  return Object.defineProperty(new Error('b'), name, { get: throws })
}

function throws(): never {
  throw new TypeError('cannot be read')
}

function cycle(): object {
  const value: { self?: object } = {}
  value.self = value
  return value
}

function revoked(): object {
  const { proxy, revoke } = Proxy.revocable({}, {})
  revoke()
  return proxy
}

const envelope = (more: object): string =>
  JSON.stringify({ specversion: '1.0', id: 'm', source: 'memory', type: 'step.made', data: null, ...more })

/** Bodies that no handler is given. */
const UNREADABLE: readonly [title: string, body: string][] = [
  ['NUL', `not JSON ${NUL}`],
  ['half of a pair', `not JSON ${HALF}`],
  ['both', `${HALF}${NUL}`],
  ['what looks like bytes', 'base64:AAAA'],
  ['what looks like halves', 'utf16:AAAA'],
  ['half of a pair in its id', envelope({ id: `m${HALF}` })],
  ['NUL in its id', envelope({ id: `m${NUL}` })],
  ['half of a pair in its source', envelope({ source: HALF })],
  ['half of a pair in its type', envelope({ type: HALF })],
  ['NUL in its predecessor', envelope({ previous: `m${NUL}` })],
]

/** Events that a handler is given, and fails. */
const FAILING: readonly [title: string, more: object][] = [
  ['NUL in its data', { data: { note: `a${NUL}b` } }],
  ['half of a pair in its data', { data: { note: `a${HALF}b` } }],
  ['the text of an escape in its data', { data: { note: 'a\\u0000 \\u{0}' } }],
  ['NUL in its subject', { subject: `a${NUL}` }],
  ['half of a pair in its subject', { subject: HALF }],
  ['NUL in its tenant', { tenant: `a${NUL}` }],
  ['half of a pair in its tenant', { tenant: HALF }],
  ['NUL in its traceparent', { traceparent: `a${NUL}` }],
  ['NUL in an attribute', { [`a${NUL}`]: `b${NUL}`, c: HALF }],
]

function cases(opened: () => Promise<RedriveWorld>): void {
  let world: RedriveWorld
  let name = ''
  let count = 0
  beforeAll(async () => {
    world = await opened()
  })
  beforeEach(() => {
    name = `odd ${count++}`
  })

  const consuming = (handler: (event: { data: unknown }) => unknown, attempts = 2): Consumer =>
    world.once.consumer(
      name,
      { from: world.broker.source, attempts },
      { 'step.made': async (event) => void (await handler(event)) },
    )

  /** Until nothing is left to do. */
  async function settled(message: MemoryMessage, handler: () => unknown): Promise<DeadLetter> {
    let calls = 0
    const consumer = consuming(() => {
      calls++
      return handler()
    })
    world.broker.publish(message)
    await consumer.drain()
    expect(world.broker.left).toBe(0)
    expect(calls).toBeLessThanOrEqual(2)
    const [letter, ...others] = await world.once.deadLetters.list({ consumer: name })
    expect(others).toEqual([])
    return letter as DeadLetter
  }

  /** Export, read, import: nothing of it is new. */
  async function travels({ id }: DeadLetter): Promise<void> {
    const lines: string[] = []
    for await (const line of world.once.deadLetters.export({ consumer: name })) lines.push(line)
    expect(lines).toHaveLength(1)
    expect(await world.once.deadLetters.import(lines, BY)).toMatchObject({ imported: 0, known: 1 })
    expect(await world.once.deadLetters.get(id, { reveal: true })).not.toBeNull()
  }

  it.each(THROWN)('a handler that throws %s', async (_title, make, line) => {
    const letter = await settled({ id: 'm' }, () => {
      throw make()
    })
    expect(letter).toMatchObject({ reason: 'failed', attempts: 2, message: 'm' })
    expect(letter.error).toMatch(line)
    expect(letter.timeline.map(({ error }) => error)).toEqual([letter.error, letter.error])
    expect(letter.causes[0]).toMatchObject({ name: expect.any(String), message: expect.any(String) })
    await travels(letter)
  })

  it.each(UNREADABLE)('a body with %s', async (_title, body) => {
    const letter = await settled({ id: 'm', body }, throws)
    expect(letter).toMatchObject({ reason: 'unreadable' })
    await travels(letter)
  })

  it.each(FAILING)('an event with %s', async (_title, more) => {
    const body = envelope(more)
    const letter = await settled({ id: 'm', body }, throws)
    expect(letter).toMatchObject({ reason: 'failed', message: 'm', body })
    await travels(letter)
    const seen: unknown[] = []
    const consumer = consuming(({ data }) => seen.push(data))
    const transform = (event: object): object => ({ ...event, more: NUL })
    const { id } = await world.once.redrive.run({ consumer: name }, { ...BY, transform })
    await consumer.drain()
    expect(await world.once.redrive.status(id)).toMatchObject({ state: 'done', applied: 1 })
    expect(seen).toEqual([(JSON.parse(body) as { data: unknown }).data])
  })

  it('a redrive that fails in such a way', async () => {
    const letter = await settled({ id: 'm' }, throws)
    for (const [, make] of THROWN) {
      const consumer = consuming(() => {
        throw make()
      })
      const { id } = await world.once.redrive.run({ consumer: name }, { ...BY, canary: 0, pauseAt: 1 })
      await consumer.drain()
      expect(await world.once.redrive.status(id)).toMatchObject({ state: 'done', failed: 1 })
    }
    const [last] = await world.once.deadLetters.list({ consumer: name })
    expect(last).toMatchObject({ id: letter.id, attempts: THROWN.length + 2 })
    await travels(letter)
  })
}

describe('what no database can hold', () => {
  const undo: (() => Promise<void>)[] = []
  afterAll(async () => {
    for (const step of undo.toReversed()) await step()
  })
  const openedAt = async (backend: Backend, where: string, remove: () => Promise<void>): Promise<RedriveWorld> => {
    const world = await openRedriveWorld(backend, where)
    undo.push(remove, world.close)
    return world
  }

  describePostgres('PostgreSQL', () => {
    cases(async () => {
      const database = await freshDatabase()
      return openedAt('pg', database.url, database.drop)
    })
  })
  describe.each(['sqlite', 'memory'] as const)('%s', (backend) => {
    cases(async () => {
      const { file, remove } = await temporaryFile()
      return openedAt(backend, file, remove)
    })
  })

  it('one bad row of before does not hide the others', async () => {
    const { file, remove } = await temporaryFile()
    const world = await openedAt('sqlite', file, remove)
    await world.park({ id: 'm1' }, { id: 'm2' })
    await world.sql(`update effectively_once_dead_letter set causes = '["', headers = '{' where message = 'm1'`)
    const letters = await world.once.deadLetters.list()
    expect(letters.map(({ message, causes }) => [message, causes.length])).toEqual([
      ['m1', 0],
      ['m2', 1],
    ])
    const lines: string[] = []
    for await (const line of world.once.deadLetters.export()) lines.push(line)
    expect(lines).toHaveLength(2)
    await world.once.redrive.run({}, BY)
    await world.consumer().drain()
    expect((await world.applied()).size).toBe(2)
  })
})
