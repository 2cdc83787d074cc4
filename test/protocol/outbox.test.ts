import { expect, it } from 'vitest'
import { event } from '../../src/index.ts'
import type { Ack, HoldParams, Outbox, ShardState, StoredEvent } from '../../src/store/outbox.ts'
import { describeAll } from '../support/stores.ts'

const events = { 'step.made': event<{ aggregate: string; n: number }>((step) => step.aggregate) }
const ONE = '00000000-0000-4000-8000-000000000001'
const TWO = '00000000-0000-4000-8000-000000000002'

describeAll('the outbox', (place) => {
  let destinations = 0
  let keys = 0

  async function lab(): Promise<{ outbox: Outbox; destination: string }> {
    const outbox = place.bed.store.outbox
    const destination = `d${destinations++}`
    await outbox.open({ destination })
    await outbox.open({ destination })
    return { outbox, destination }
  }

  async function publish(aggregate: string, count: number): Promise<void> {
    const once = place.once({ events } as never)
    for (let n = 1; n <= count; n++) {
      await once.run({ scope: 's', key: `outbox ${keys++}`, input: null }, ({ publish: send }) =>
        (send as (type: string, data: unknown) => Promise<string>)('step.made', { aggregate, n, text: `"ü\\{}` }),
      )
    }
  }

  function owner(shards: readonly ShardState[], of: { readonly shard: number }): ShardState {
    return shards.find(({ shard }) => shard === of.shard) as ShardState
  }

  async function newest(outbox: Outbox, destination: string, aggregate: string): Promise<StoredEvent[]> {
    const from = Array.from({ length: 64 }, (_, shard) => ({ shard, cursor: 0, segment: 0 }))
    const { events: all } = await outbox.read({ destination, from, perShard: 10_000, limit: 100_000 })
    return all.filter(({ aggregateId }) => aggregateId === aggregate)
  }

  const held = (of: StoredEvent, change: Partial<HoldParams>): HoldParams => ({
    shard: of.shard,
    seq: of.seq,
    aggregateId: of.aggregateId,
    state: 'waiting',
    attempts: 0,
    dueInMs: null,
    notBefore: null,
    reason: null,
    ...change,
  })

  it('leases every shard once, shares by presence, and hands over on release', async () => {
    const { outbox, destination } = await lab()
    expect(await outbox.beat({ destination, relay: ONE, leaseMs: 60_000, leases: [] })).toEqual({
      relays: 1,
      free: 64,
      ours: [],
      due: false,
    })
    const one = await outbox.lease({ destination, relay: ONE, leaseMs: 60_000, limit: 40 })
    const two = await outbox.lease({ destination, relay: TWO, leaseMs: 60_000, limit: 40 })
    expect([one.length, two.length]).toEqual([40, 24])
    expect(new Set([...one, ...two].map(({ shard }) => shard)).size).toBe(64)
    expect(one[0]).toEqual({
      shard: expect.any(Number),
      token: expect.any(Number),
      cursor: 0,
      segment: 0,
      counted: 0,
      tryingTo: null,
      attempt: 0,
      blocked: [],
    })
    const beat = await outbox.beat({ destination, relay: TWO, leaseMs: 60_000, leases: two })
    expect({ ...beat, ours: beat.ours.length }).toEqual({ relays: 2, free: 0, ours: 24, due: false })
    await outbox.release({ destination, relay: ONE, leases: one, leaving: true })
    expect((await outbox.read({ destination, from: [], perShard: 1, limit: 1 })).free).toBe(true)
    const after = await outbox.beat({ destination, relay: TWO, leaseMs: 60_000, leases: [...two, ...one.slice(0, 1)] })
    expect({ ...after, ours: after.ours.length }).toEqual({ relays: 1, free: 40, ours: 24, due: false })
  })

  it('reads behind a cursor and fences who was taken over', async () => {
    const { outbox, destination } = await lab()
    const aggregate = `f${destination}`
    await publish(aggregate, 3)
    const [first, second, third] = (await newest(outbox, destination, aggregate)) as [
      StoredEvent,
      StoredEvent,
      StoredEvent,
    ]
    expect(JSON.parse(first.payload ?? '')).toEqual({ aggregate, n: 1, text: `"ü\\{}` })
    expect(first).toMatchObject({ type: 'step.made', aggregateType: 'step', aggregateId: aggregate })
    expect(Math.abs(first.at - Date.now())).toBeLessThan(600_000)
    const mine = owner(await outbox.lease({ destination, relay: ONE, leaseMs: 1, limit: 64 }), first)
    await new Promise((resolve) => setTimeout(resolve, 20))
    const { segment } = first
    const ack = {
      shard: mine.shard,
      token: mine.token,
      cursor: first.seq,
      segment,
      counted: 1,
      tryingTo: third.seq,
      attempt: 1,
    }
    // Lapsed, but nobody took over: the token decides, not the clock.
    expect(await outbox.ack({ destination, acks: [ack], hold: [] })).toEqual({ ours: [mine.shard], parked: [] })
    expect(await outbox.ack({ destination, acks: [ack], hold: [] })).toEqual({ ours: [mine.shard], parked: [] })
    const theirs = owner(await outbox.lease({ destination, relay: TWO, leaseMs: 60_000, limit: 64 }), first)
    expect(theirs.token).toBeGreaterThan(mine.token)
    expect(theirs).toMatchObject({ cursor: first.seq, tryingTo: third.seq, attempt: 1 })
    const late = { ...ack, cursor: second.seq }
    const given = [held(second, { state: 'parked', attempts: 1, reason: 'no' })]
    expect(await outbox.ack({ destination, acks: [late], hold: given })).toEqual({ ours: [], parked: [] })
    expect((await outbox.due({ destination, shards: [mine.shard], limit: 10, behind: 10 })).events).toEqual([])
    const from = [{ shard: theirs.shard, cursor: theirs.cursor, segment: theirs.segment }]
    const read = await outbox.read({ destination, from, perShard: 1, limit: 10 })
    expect(read.events.map(({ seq }) => seq)).toEqual([second.seq])
    expect(read.free).toBe(false)
    // Released without having been tried: the next owner has no reason to suspect it.
    const intent = { ...theirs, tryingTo: third.seq, attempt: 2 }
    expect((await outbox.ack({ destination, acks: [intent], hold: [] })).ours).toEqual([theirs.shard])
    await outbox.release({ destination, relay: TWO, leases: [theirs], leaving: true })
    const next = owner(await outbox.lease({ destination, relay: ONE, leaseMs: 60_000, limit: 64 }), first)
    expect(next).toMatchObject({ cursor: first.seq, tryingTo: null, attempt: 0 })
  })

  it('refuses whoever knows more than the database', async () => {
    const { outbox, destination } = await lab()
    const aggregate = `r${destination}`
    await publish(aggregate, 2)
    const [first, second] = (await newest(outbox, destination, aggregate)) as [StoredEvent, StoredEvent]
    const mine = owner(await outbox.lease({ destination, relay: ONE, leaseMs: 60_000, limit: 64 }), first)
    const { shard, token } = mine
    const of = { shard, token, tryingTo: null, attempt: 0 }
    const passing = (last: StoredEvent, counted: number): Ack => ({
      ...of,
      cursor: last.seq,
      segment: last.segment,
      counted,
      from: 0,
      seen: [last],
    })
    const refused = { ours: [], parked: [] }
    const hold = [held(second, { state: 'parked', attempts: 1, reason: 'no' })]
    const ack = (...acks: Ack[]): ReturnType<Outbox['ack']> => outbox.ack({ destination, acks, hold })
    const beat = async (cursor: number): Promise<readonly number[]> =>
      (await outbox.beat({ destination, relay: ONE, leaseMs: 60_000, leases: [{ shard, token, cursor }] })).ours
    expect(await ack({ ...passing(second, 2), from: first.seq })).toEqual(refused)
    // Another event has its number, or none has: nothing of the shard is written.
    const other = { ...second, id: first.id }
    const gone = { ...second, seq: second.seq + 100_000 }
    for (const seen of [[other], [gone], [gone, second]]) {
      expect(await ack({ ...passing(first, 1) }, { ...passing(second, 2), seen })).toEqual(refused)
    }
    expect(await beat(first.seq)).toEqual([])
    expect(await beat(0)).toEqual([shard])
    expect(await ack({ ...passing(second, 2), seen: [first, second] })).toEqual({
      ours: [shard],
      parked: [{ shard, seq: second.seq }],
    })
    expect(await beat(second.seq)).toEqual([shard])
    // Written twice it says the same, whatever was known when it was first said.
    expect(await ack({ ...passing(second, 2), seen: [first, second] })).toMatchObject({ ours: [shard] })
    expect(await outbox.release({ destination, relay: ONE, leases: [mine], leaving: false })).toBe(1)
    expect(await outbox.release({ destination, relay: ONE, leases: [mine], leaving: false })).toBe(0)
  })

  it('tells in the audit what a database that was put back has forgotten, with the release', async () => {
    const { outbox, destination } = await lab()
    const leased = await outbox.lease({ destination, relay: ONE, leaseMs: 60_000, limit: 2 })
    const [first, second] = leased as [ShardState, ShardState]
    const rewound = { by: 'shop', destination: 'as it is called' }
    const release = (leases: readonly ShardState[]): Promise<number> => {
      const known = leases.map(({ shard, token }) => ({ shard, token, known: 100 + shard }))
      return outbox.release({ destination, relay: ONE, leases: known, leaving: false, rewound })
    }
    const told = async (): Promise<readonly unknown[]> =>
      ((await place.bed.store.redrives?.audit({ limit: 100, namespace: 0 })) ?? [])
        .filter(({ action }) => action === 'rewound')
        .map(({ by, detail }) => ({ by, ...(JSON.parse(detail) as object) }))
    const before = (await told()).length
    expect(await release([{ ...second, token: second.token - 1 }])).toBe(0)
    expect(await outbox.release({ destination, relay: ONE, leases: [second], leaving: false })).toBe(1)
    expect(await told()).toHaveLength(before)
    expect(await release([second, first])).toBe(1)
    expect(await told()).toHaveLength(before + 1)
    const partitions = [{ partition: String(first.shard), from: String(100 + first.shard), to: '0' }]
    expect((await told())[0]).toEqual({ by: 'shop', destination: 'as it is called', partitions })
    // A lease that the database has forgotten: no token ever falls.
    expect(await release([{ ...first, token: first.token + 10 }])).toBe(1)
    expect((await told())[0]).toEqual({ by: 'shop', destination: 'as it is called', partitions })
    await outbox.forget({ destination })
    await outbox.open({ destination })
    expect(await release([{ ...first, token: first.token + 10 }])).toBe(0)
    expect(await told()).toHaveLength(before + 2)
  })

  it('holds a head with what waits behind it, and lets go of them in order', async () => {
    const { outbox, destination } = await lab()
    const aggregate = `h${destination}`
    await publish(aggregate, 4)
    const all = (await newest(outbox, destination, aggregate)) as [StoredEvent, StoredEvent, StoredEvent, StoredEvent]
    const mine = owner(await outbox.lease({ destination, relay: ONE, leaseMs: 60_000, limit: 64 }), all[0])
    const { shard, token } = mine
    const hold = [
      held(all[0], { attempts: 1, dueInMs: 0, reason: 'it said "no"' }),
      held(all[1], {}),
      held(all[2], {}),
      held(all[3], { state: 'delayed', notBefore: new Date(Date.now() + 3_600_000).toISOString() }),
    ]
    await outbox.ack({
      destination,
      acks: [{ shard, token, cursor: all[3].seq, segment: all[3].segment, counted: 4, tryingTo: null, attempt: 0 }],
      hold,
    })
    const due = await outbox.due({ destination, shards: [shard], limit: 10, behind: 1 })
    expect(due.events.map(({ seq, attempts, state }) => [seq, attempts, state])).toEqual([
      [all[0].seq, 1, 'waiting'],
      [all[1].seq, 0, 'waiting'],
    ])
    const settle = { destination, leases: [mine], kept: [], park: [], touched: [{ shard, aggregateId: aggregate }] }
    const sent = [all[0], all[1]]
    // A stranger changes nothing.
    const nothing = { ours: [], parked: [], blocked: [] }
    expect(await outbox.settleHeld({ ...settle, leases: [{ shard, token: 99 }], sent, changed: [] })).toEqual(nothing)
    const blocked = { shard, aggregateId: aggregate, parked: false }
    expect((await outbox.settleHeld({ ...settle, sent, changed: [] })).blocked).toEqual([blocked])
    const rest = await outbox.due({ destination, shards: [shard], limit: 10, behind: 10 })
    expect(rest.events.map(({ seq }) => seq)).toEqual([all[2].seq])
    const again = held(all[2], { attempts: 1, dueInMs: 60_000, reason: 'again' })
    expect((await outbox.settleHeld({ ...settle, sent: [], changed: [again] })).blocked).toEqual([blocked])
    const none = await outbox.due({ destination, shards: [shard], limit: 10, behind: 10 })
    expect(none.events).toEqual([])
    expect(none.nextInMs).toBeGreaterThan(30_000)
    const given = held(all[2], { state: 'parked', attempts: 2, reason: 'over' })
    const parked = { ...blocked, parked: true }
    expect(await outbox.settleHeld({ ...settle, sent: [], changed: [given], park: settle.touched })).toEqual({
      ours: [shard],
      parked: [{ shard, seq: all[2].seq }],
      blocked: [parked],
    })
    await outbox.release({ destination, relay: ONE, leases: [mine], leaving: true })
    const next = owner(await outbox.lease({ destination, relay: TWO, leaseMs: 60_000, limit: 64 }), all[0])
    expect(next.blocked).toEqual([parked])
    const later = await outbox.due({ destination, shards: [shard], limit: 10, behind: 10 })
    expect(later.nextInMs).toBeGreaterThan(3_000_000)
  })
})
