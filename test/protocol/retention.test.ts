import { expect, it } from 'vitest'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { claimOf } from '../support/claims.ts'
import { describeAll, describeClient, describeClients, type Place } from '../support/stores.ts'

const ANSWER = { status: 200, headers: [], body: null, kept: true } as const

function charge(place: Place, key: string, options: Parameters<Place['once']>[0] = {}): Promise<unknown> {
  return place.once(options).run({ scope: 'u', key, input: key }, ({ tx }) => insertCharge(place, tx, key))
}

/** Moves a record's times by database time: waiting for them would take days. */
async function age({ bed }: Place, key: string, by: { expired?: boolean; forgotten?: boolean }): Promise<void> {
  const { id } = claimOf(key)
  const sqlite = bed.store.name === 'sqlite'
  const table = sqlite ? 'effectively_once_record' : 'effectively_once.record'
  const past = sqlite ? '1' : `clock_timestamp() - interval '1 second'`
  if (by.expired) await bed.admin(`update ${table} set expires_at = ${past} where id = '${id}'`)
  if (by.forgotten) await bed.admin(`update ${table} set expires_at = ${past}, forget_at = ${past} where id = '${id}'`)
}

describeAll('retention', (place) => {
  it('replays, then is gone, then is new', async () => {
    const first = await charge(place, 'aging')
    expect(await charge(place, 'aging')).toEqual(first)
    await age(place, 'aging', { expired: true })
    expect(await outcomeOf(charge(place, 'aging'))).toBe('ONCE_GONE')
    expect(await countCharges(place, 'aging')).toBe(1)
    await age(place, 'aging', { forgotten: true })
    expect(await charge(place, 'aging')).not.toEqual(first)
    expect(await countCharges(place, 'aging')).toBe(2)
  })

  it('runs an expired key again where the policy says so, once', async () => {
    await charge(place, 'rerun')
    await age(place, 'rerun', { expired: true })
    const second = await charge(place, 'rerun', { expired: 'rerun' })
    expect(await charge(place, 'rerun', { expired: 'rerun' })).toEqual(second)
    expect(await countCharges(place, 'rerun')).toBe(2)
    // a refusal takes over an expired record too
    await age(place, 'rerun', { expired: true })
    const { final } = await import('../../src/index.ts')
    const refuse = (): Promise<unknown> =>
      place.once({ expired: 'rerun' }).run({ scope: 'u', key: 'rerun', input: 'rerun' }, async () => {
        throw final({ status: 410, body: 'closed' })
      })
    await expect(refuse()).rejects.toMatchObject({ status: 410, body: 'closed' })
    await expect(refuse()).rejects.toMatchObject({ status: 410, body: 'closed' })
  })

  it('gives a second life other tokens and other event ids', async () => {
    const first = await place.bed.store.begin({ claim: claimOf('lives'), deadlineMs: 5_000 })
    await first.session.complete({
      claim: claimOf('lives'),
      claimed: first.claimed!,
      answer: ANSWER,
      events: [],
      fenced: false,
    })
    await age(place, 'lives', { forgotten: true })
    const again = await place.bed.store.begin({ claim: claimOf('lives'), deadlineMs: 5_000 })
    const renewed = again.claimed ?? (await again.session.renew(claimOf('lives'), again.view.record!))
    await again.session.rollback()
    expect(renewed!.life).not.toBe(first.claimed!.life)
    expect(BigInt(renewed!.token)).toBeGreaterThan(BigInt(first.claimed!.token))
  })

  it('sweeps forgotten records, a bounded number at a time, and nothing else', async () => {
    const once = place.once()
    await once.sweep()
    for (const key of ['sweep 1', 'sweep 2', 'sweep 3', 'kept', 'merely gone']) await charge(place, key)
    for (const key of ['sweep 1', 'sweep 2', 'sweep 3']) await age(place, key, { forgotten: true })
    await age(place, 'merely gone', { expired: true })
    expect(await once.sweep({ limit: 2 })).toMatchObject({ records: 2, finished: false })
    expect((await once.sweep({ limit: 100 })).records).toBe(1)
    expect((await once.sweep({ limit: 100 })).records).toBe(0)
    for (const [key, there] of [
      ['sweep 1', false],
      ['sweep 2', false],
      ['sweep 3', false],
      ['kept', true],
      ['merely gone', true],
    ] as const) {
      expect((await place.bed.store.read({ id: claimOf(key).id })).record !== null).toBe(there)
    }
    for (const limit of [0, -1, 1.5, 1e9]) expect(await outcomeOf(once.sweep({ limit }))).toBe('ONCE_OPTION_INVALID')
  })

  // finding 15
  it('never removes what is in progress or unknown: past its time it is unknown, and listed', async () => {
    const { leases, retention } = place.bed.store
    for (const key of ['half done', 'asked for']) {
      const claim = claimOf(key)
      const { claimed } = await leases.claim({ claim, leaseMs: 30, recover: null })
      await leases.startStep({ id: claim.id, token: claimed!.token, life: claimed!.life, name: 'call' })
      if (key === 'asked for') await leases.suspend({ id: claim.id, token: claimed!.token })
    }
    await later(60)
    for (const key of ['half done', 'asked for']) await age(place, key, { forgotten: true })
    await retention.sweep({ limit: 1_000, replayForMs: 86_400_000 })
    for (const key of ['half done', 'asked for']) {
      expect((await place.bed.store.read({ id: claimOf(key).id })).record).toMatchObject({ state: 'unknown' })
      const retry = place.once().run({ scope: 'u', key, input: 1, lease: '1s' }, ({ commit }) => commit(() => 'ran'))
      expect(await outcomeOf(retry)).toBe('ONCE_OUTCOME_UNKNOWN')
    }
    const listed = (await leases.unknown({ limit: 10 })).map(({ id }) => id)
    expect(listed).toEqual(expect.arrayContaining([claimOf('half done').id, claimOf('asked for').id]))
    // a lease that still beats is nobody's business
    const alive = claimOf('alive')
    await leases.claim({ claim: alive, leaseMs: 60_000, recover: null })
    await age(place, 'alive', { forgotten: true })
    await retention.sweep({ limit: 1_000, replayForMs: 86_400_000 })
    expect((await place.bed.store.read({ id: alive.id })).record).toMatchObject({ state: 'inProgress' })
  })

  it('keeps no sealed input of an operation that an atomic one took over, nor of one that was swept', async () => {
    const [sealed, lone] = [claimOf('sealed'), claimOf('lone')]
    const recover = { namespace: 'test', name: 'pay', input: '{"card":"4242"}' }
    await place.bed.store.leases.claim({ claim: sealed, leaseMs: 10, recover })
    await place.bed.store.leases.claim({ claim: lone, leaseMs: 60_000, recover })
    await later(30)
    const table = place.bed.store.name === 'sqlite' ? 'effectively_once_' : 'effectively_once.'
    const inputs = async (id: string): Promise<unknown> =>
      (await place.bed.admin(`select input from ${table}recover where id = '${id}'`)).length
    expect(await inputs(sealed.id)).toBe(1)
    await place.once().run({ scope: 'u', key: 'sealed', input: 1 }, async () => 'taken over')
    expect(await inputs(sealed.id)).toBe(0)
    // What an older version left behind goes with its record.
    await place.bed.admin(`update ${table}record set state = 2 where id = '${lone.id}'`)
    await age(place, 'lone', { forgotten: true })
    await place.bed.store.retention.sweep({ limit: 1_000, replayForMs: 86_400_000 })
    expect(await inputs(lone.id)).toBe(0)
  })

  // finding 45
  it('never takes a missing answer for an expired one', async () => {
    await charge(place, 'answerless')
    const table = place.bed.store.name === 'sqlite' ? 'effectively_once_answer' : 'effectively_once.answer'
    await place.bed.admin(`delete from ${table} where id = '${claimOf('answerless').id}'`)
    expect(await outcomeOf(charge(place, 'answerless', { expired: 'rerun' }))).toBe('ONCE_UNREPLAYABLE')
    expect(await countCharges(place, 'answerless')).toBe(1)
  })
})

describeClients('answers by the day they expire', (place) => {
  it('go to the partition of their day, and leave with it', async () => {
    await charge(place, 'today')
    const [day] = await place.bed.admin(
      `select to_char((clock_timestamp() + interval '24 hours') at time zone 'utc', '"answer_"YYYYMMDD') as name`,
    )
    const [where] = await place.bed.admin(
      `select tableoid::regclass::text as name from effectively_once.answer where id = '${claimOf('today').id}'`,
    )
    expect(where!['name']).toBe(`effectively_once.${String(day!['name'])}`)
    await place.bed.admin(
      `create table effectively_once.answer_20200101 partition of effectively_once.answer for values from ('2020-01-01') to ('2020-01-02')`,
    )
    await place.bed.admin(
      `insert into effectively_once.answer (token, id, day, status, kept) values (1, gen_random_uuid(), '2019-01-01', 200, true), (1, gen_random_uuid(), '2020-01-01', 200, true)`,
    )
    expect(await place.once().sweep()).toMatchObject({ partitionsDropped: 1, partitionsBusy: 0 })
    const [left] = await place.bed.admin(
      `select count(*)::int as n from effectively_once.answer where day < '2021-01-01'`,
    )
    expect(left!['n']).toBe(0)
    expect(await outcomeOf(charge(place, 'today'))).toBe('value')
  })

  it('are made ahead, for every day an answer can expire on', async () => {
    await place.once({ replayFor: '5d' }).sweep()
    const rows = await place.bed.admin(
      `select count(*)::int as n from pg_inherits h join pg_class c on c.oid = h.inhrelid
        where h.inhparent = 'effectively_once.answer'::regclass and c.relname ~ '^answer_2'`,
    )
    expect(rows[0]!['n']).toBeGreaterThanOrEqual(6)
  })
})

describeClient('rotation', 'pg', (place) => {
  // finding 23
  it('stalls nobody: an open handler and an open snapshot in the way, replays and fresh runs unmoved', async () => {
    const table = 'effectively_once.answer_20200102'
    await place.bed.admin(
      `create table ${table} partition of effectively_once.answer for values from ('2020-01-02') to ('2020-01-03')`,
    )
    await charge(place, 'replayed meanwhile')
    let go: () => void = () => {}
    const gate = new Promise<void>((resolve) => (go = resolve))
    const handler = place.once().run({ scope: 'u', key: 'open handler', input: 1 }, async ({ tx }) => {
      await insertCharge(place, tx, 'open handler')
      await gate
    })
    const reader = place.bed.own(async (tx) => {
      await place.bed.raw(tx, 'set transaction isolation level repeatable read')
      await place.bed.raw(tx, 'select count(*)::int as n from effectively_once.answer')
      await gate
    })
    await later(100)
    const waits: number[] = []
    const sweeping = new AbortController()
    const once = place.once()
    const traffic = (async () => {
      for (let i = 0; !sweeping.signal.aborted; i++) {
        const startedAt = performance.now()
        await (i % 2 === 0 ? charge(place, 'replayed meanwhile') : charge(place, `fresh ${i}`))
        waits.push(performance.now() - startedAt)
      }
    })()
    const swept = []
    for (let i = 0; i < 10; i++) swept.push(await once.sweep())
    sweeping.abort()
    await traffic
    expect(
      swept.every(({ partitionsBusy, partitionsDropped }) => partitionsBusy === 1 && partitionsDropped === 0),
    ).toBe(true)
    waits.sort((a, b) => a - b)
    expect(waits.length).toBeGreaterThan(20)
    // The lock is tried for at most 50 ms; nobody waits for the transactions in the way, which last far longer.
    expect(waits.at(-1)).toBeLessThan(700)
    go()
    await Promise.all([handler, reader])
    expect(await once.sweep()).toMatchObject({ partitionsDropped: 1, partitionsBusy: 0 })
  })
})
