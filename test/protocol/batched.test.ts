import { expect, it } from 'vitest'
import { event, final } from '../../src/index.ts'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describeAll, describeClients, type Place } from '../support/stores.ts'

let nextId = 1_000_000

/** A batched route that inserts one charge per request; ids are given, so a repeated id violates the primary key. */
function route(place: Place, once = place.once()): (key: string, id?: number, scope?: string) => Promise<unknown> {
  const charge = once.batched({
    statement: ({ id, key }: { id: number; key: string }) => ({
      sql: 'insert into charges (id, key, amount) values ($1, $2, 1) returning id, key',
      values: [id, key],
    }),
    respond: ([row]) => ({ id: Number(row!['id']), key: row!['key'] }),
  })
  const ids = new Map<string, number>()
  return (key, id, scope = 'u') => {
    if (!ids.has(key)) ids.set(key, id ?? ++nextId)
    return charge({ scope, key, input: { id: id ?? ids.get(key)!, key } })
  }
}

describeAll('batched operations', (place) => {
  it('share transactions, answer each request its own, and replay', async () => {
    const charge = route(place)
    const keys = Array.from({ length: 100 }, (_, i) => `batch ${i}`)
    const first = await Promise.all(keys.map((key) => charge(key)))
    expect(first.map((answer) => (answer as { key: string }).key)).toEqual(keys)
    expect(await Promise.all(keys.map((key) => charge(key)))).toEqual(first)
    const again = place.once()
    for (const [i, answer] of first.entries()) {
      const { id, key } = answer as { id: number; key: string }
      if (i % 20 === 0)
        expect(await again.run({ scope: 'u', key, input: { id, key } }, async () => 'ran twice')).toEqual(answer)
    }
    expect(Number((await place.bed.admin(`select count(*) as n from charges where key like 'batch %'`))[0]!['n'])).toBe(
      100,
    )
  })

  // a batch has one deadline and one life for its records
  it('share a batch only where they agree on how long an answer is kept, and on what comes then', async () => {
    const once = place.once({ replayFor: '1d' })
    const charge = once.batched({
      statement: (key: string) => ({
        sql: 'insert into charges (id, key, amount) values ($1, $2, 1)',
        values: [++nextId, key],
      }),
      respond: (_rows, key) => key,
    })
    // Untyped callers give the options of `run`, too.
    const all = (of: (i: number) => object, to: typeof charge = charge): Promise<string[]> =>
      Promise.all(keys.map((key, i) => outcomeOf(to({ scope: 'u', key, input: key, ...of(i) }))))
    const keys = Array.from({ length: 8 }, (_, i) => `terms ${i}`)
    const made = await all((i) => (i % 2 === 0 ? { replayFor: '1s' } : {}))
    expect(new Set(made)).toEqual(new Set(['value']))
    await later(1_100)
    // Nothing is remembered there: the records alone answer.
    const elsewhere = place.once().batched<string, string>({
      statement: (key) => ({
        sql: 'insert into charges (id, key, amount) values ($1, $2, 1)',
        values: [++nextId, key],
      }),
      respond: (_rows, key) => key,
    })
    const outcomes = await all((i) => (i % 4 === 0 ? { expired: 'rerun' } : {}), elsewhere)
    expect(outcomes).toEqual(keys.map((_, i) => (i % 4 === 2 ? 'ONCE_GONE' : 'value')))
    for (const [i, key] of keys.entries()) expect(await countCharges(place, key)).toBe(i % 4 === 0 ? 2 : 1)
  })

  it('have no lease', async () => {
    const charge = place.once().batched({
      statement: () => ({ sql: `insert into charges (id, key, amount) values (${++nextId}, 'leased', 1)`, values: [] }),
      respond: () => 'made',
    })
    const leased = { scope: 'u', key: 'leased', input: 1, lease: '5s' }
    expect(await outcomeOf(charge(leased))).toBe('ONCE_OPTION_INVALID')
    expect(await countCharges(place, 'leased')).toBe(0)
  })

  // finding 21: the same key twice in one batch
  it('run a key once when it comes twice at the same time', async () => {
    const charge = route(place)
    const outcomes = await Promise.all(Array.from({ length: 8 }, () => outcomeOf(charge('twin'))))
    expect(outcomes.filter((outcome) => outcome === 'value').length).toBeGreaterThanOrEqual(1)
    for (const outcome of outcomes) expect(['value', 'ONCE_IN_FLIGHT']).toContain(outcome)
    expect(await countCharges(place, 'twin')).toBe(1)
  })

  // finding 21: three debits, three checks
  it('see the statements before them: debits add up, and a check holds', async () => {
    await place.bed.admin('delete from accounts')
    await place.bed.admin('insert into accounts (id, balance) values (1, 100), (2, 100)')
    const once = place.once()
    const debit = once.batched({
      statement: ({ account, amount }: { account: number; amount: number }) => ({
        sql: 'update accounts set balance = balance - $1 where id = $2 and balance >= $1 returning balance',
        values: [amount, account],
      }),
      respond: ([row]) => (row ? Number(row['balance']) : 'refused'),
    })
    const three = (account: number, amount: number): Promise<unknown[]> =>
      Promise.all([1, 2, 3].map((n) => debit({ scope: 'u', key: `debit ${account} ${n}`, input: { account, amount } })))
    await three(1, 10)
    expect((await three(2, 60)).filter((answer) => answer !== 'refused')).toEqual([40])
    const balances = (await place.bed.admin('select balance from accounts order by id')).map((row) =>
      Number(row['balance']),
    )
    expect(balances).toEqual([70, 40])
  })

  it('store a refusal also where an expired record begins a new life with it', async () => {
    const once = place.once({ expired: 'rerun', replayFor: '1s' })
    let refuses = false
    const pay = once.batched({
      statement: (key: string) => ({
        sql: 'insert into charges (id, key, amount) values ($1, $2, 1)',
        values: [++nextId, key],
      }),
      respond: () => {
        if (refuses) throw final({ status: 402 })
        return 'paid'
      },
    })
    const again = (): Promise<unknown> => pay({ scope: 'u', key: 'second life', input: 'second life' })
    expect(await again()).toBe('paid')
    await later(1_100)
    refuses = true
    await expect(again()).rejects.toMatchObject({ status: 402 })
    await expect(again()).rejects.toMatchObject({ status: 402 })
    expect(await countCharges(place, 'second life')).toBe(1)
  })

  // finding 22
  it('give a violator its own error and everybody else their answer', async () => {
    const charge = route(place)
    const taken = ++nextId
    await charge('owner', taken)
    const requests = Array.from({ length: 60 }, (_, i) =>
      outcomeOf(i % 20 === 7 ? charge(`bad ${i}`, taken) : charge(`good ${i}`)),
    )
    const outcomes = await Promise.all(requests)
    for (const [i, outcome] of outcomes.entries()) {
      if (i % 20 === 7) expect(outcome).not.toBe('value')
      else expect(outcome).toBe('value')
    }
    expect(Number((await place.bed.admin(`select count(*) as n from charges where key like 'bad %'`))[0]!['n'])).toBe(0)
    // The violator's key is free: a corrected request is another request.
    expect(await outcomeOf(charge('bad 7', ++nextId))).toBe('value')
  })

  it('refuse one of many without its effect, and keep the others', async () => {
    const once = place.once()
    const charge = once.batched({
      statement: ({ id, key }: { id: number; key: string }) => ({
        sql: 'insert into charges (id, key, amount) values ($1, $2, 1) returning id',
        values: [id, key],
      }),
      respond: ([row], input) => {
        if (input.key === 'refused 3') throw final({ status: 402, body: 'no' })
        return Number(row!['id'])
      },
    })
    const inputs = Array.from({ length: 6 }, (_, i) => ({ id: ++nextId, key: `refused ${i}` }))
    const results = await Promise.allSettled(inputs.map((input) => charge({ scope: 'u', key: input.key, input })))
    expect(results.map((result) => result.status)).toEqual(inputs.map((_, i) => (i === 3 ? 'rejected' : 'fulfilled')))
    expect((results[3] as PromiseRejectedResult).reason).toMatchObject({ status: 402, body: 'no' })
    expect(await countCharges(place, 'refused 3')).toBe(0)
    await expect(charge({ scope: 'u', key: 'refused 3', input: inputs[3]! })).rejects.toMatchObject({ status: 402 })
  })

  it('publish with their effect', async () => {
    const once = place.once({ events: { 'charge.created': event<{ id: number }>(({ id }) => `charge-${id}`) } })
    const charge = once.batched({
      statement: ({ id }: { id: number }) => ({
        sql: `insert into charges (id, key, amount) values ($1, 'published', 1) returning id`,
        values: [id],
      }),
      respond: ([row], _input, { publish }) => {
        void (publish as (type: string, data: unknown) => unknown)('charge.created', { id: Number(row!['id']) })
        return 'ok'
      },
    })
    await Promise.all([1, 2, 3].map((n) => charge({ scope: 'u', key: `published ${n}`, input: { id: ++nextId } })))
    const table = place.bed.store.name === 'sqlite' ? 'effectively_once_event' : 'effectively_once.event'
    expect(
      Number((await place.bed.admin(`select count(*) as n from ${table} where type = 'charge.created'`))[0]!['n']),
    ).toBe(3)
  })

  it('refuse bad input before anything is claimed', async () => {
    const once = place.once()
    expect(() => once.batched({ statement: 1 as never, respond: () => 1 })).toThrow('ONCE_OPTION_INVALID')
    expect(() => once.batched({ statement: () => ({ sql: '', values: [] }), respond: () => 1, max: 0 })).toThrow(
      'ONCE_OPTION_INVALID',
    )
    const broken = once.batched({ statement: () => ({ sql: 1 }) as never, respond: () => 1 })
    expect(await outcomeOf(broken({ scope: 'u', key: 'broken', input: 1 }))).toBe('ONCE_OPTION_INVALID')
    expect(await outcomeOf(broken({ scope: '', key: 'broken', input: 1 }))).toBe('ONCE_SCOPE_EMPTY')
  })
})

describeClients('batched operations on a server', (place) => {
  // finding 41
  it('do not wait for a key that runs elsewhere', async () => {
    let go: () => void = () => {}
    let inside: () => void = () => {}
    const started = new Promise<void>((resolve) => (inside = resolve))
    const gate = new Promise<void>((resolve) => (go = resolve))
    const id = ++nextId
    const key = `held ${id}`
    const held = place.once().run({ scope: 'u', key, input: { id, key } }, async ({ tx }) => {
      inside()
      await gate
      return insertCharge(place, tx, key)
    })
    await started
    const charge = route(place)
    await charge(`warm up ${id}`)
    const startedAt = performance.now()
    const outcomes = await Promise.all([
      ...Array.from({ length: 63 }, (_, i) => outcomeOf(charge(`beside ${id} ${i}`))),
      outcomeOf(charge(key, id)),
    ])
    const tookMs = performance.now() - startedAt
    go()
    await held
    expect(outcomes.slice(0, 63)).toEqual(Array.from({ length: 63 }, () => 'value'))
    expect(outcomes[63]).toBe('ONCE_IN_FLIGHT')
    expect(tookMs).toBeLessThan(1_500)
    expect(await outcomeOf(charge(key, id))).toBe('value')
    expect(await countCharges(place, key)).toBe(1)
  })

  it('are the same request to a duplicate elsewhere, not another one', async () => {
    await place.bed.admin('create table gates (id int primary key)')
    let open: () => void = () => {}
    const gate = new Promise<void>((resolve) => (open = resolve))
    const id = ++nextId
    let held: Promise<unknown> | undefined
    await place.bed.own(async (tx) => {
      // The batch's own statement waits for this transaction, and so keeps its claim open.
      await place.bed.raw(tx, 'insert into gates (id) values ($1) returning id', [id])
      held = place.once().batched({
        statement: (input: number) => ({
          sql: 'insert into gates (id) values ($1) on conflict do nothing returning id',
          values: [input],
        }),
        respond: (rows) => rows.length,
      })({ scope: 'u', key: 'in a batch', input: id })
      held.catch(() => {})
      await later(150)
      const run = (input: number): Promise<string> =>
        outcomeOf(place.once().run({ scope: 'u', key: 'in a batch', input }, async () => 'ran'))
      expect(await run(id)).toBe('ONCE_IN_FLIGHT')
      expect(await run(id + 1)).toBe('ONCE_MISMATCH')
      open()
      await gate
    })
    expect(await held).toBe(0)
  })

  // finding 21: two batches of the same 64 keys
  it('never deadlock against each other', async () => {
    for (let round = 0; round < 5; round++) {
      const keys = Array.from({ length: 64 }, (_, i) => ({ id: ++nextId, key: `cross ${round} ${i}` }))
      const [one, two] = [route(place), route(place)]
      const outcomes = await Promise.all([
        ...keys.map(({ id, key }) => outcomeOf(one(key, id))),
        ...keys.toReversed().map(({ id, key }) => outcomeOf(two(key, id))),
      ])
      for (const outcome of outcomes) expect(['value', 'ONCE_IN_FLIGHT']).toContain(outcome)
      const [row] = await place.bed.admin(`select count(*) as n from charges where key like 'cross ${round} %'`)
      expect(Number(row!['n'])).toBe(64)
    }
  })

  it('survive a table that changes under their prepared statement', async () => {
    await place.bed.admin('create table shapes (id int primary key, key text)')
    const insert = place.once().batched({
      statement: (id: number) => ({
        sql: 'insert into shapes (id, key) values ($1, $2) returning *',
        values: [id, 'k'],
      }),
      respond: ([row]) => Object.keys(row!).length,
    })
    const run = (from: number): Promise<unknown[]> =>
      Promise.all(
        Array.from({ length: 20 }, (_, i) => insert({ scope: 'u', key: `shape ${from + i}`, input: from + i })),
      )
    for (let i = 0; i < 8; i++) expect(new Set(await run(i * 100))).toEqual(new Set([2]))
    await place.bed.admin('alter table shapes add column colour text')
    expect(new Set(await run(1_000))).toEqual(new Set([3]))
    expect(Number((await place.bed.admin('select count(*) as n from shapes'))[0]!['n'])).toBe(180)
  })

  // finding 42
  it('stay inside the share of the advisory locks that is theirs', async () => {
    const [row] = await place.bed.admin(
      `select current_setting('max_locks_per_transaction')::int * current_setting('max_connections')::int as budget`,
    )
    const limit = await place.bed.store.batches.limit()
    expect(limit).toBeGreaterThan(0)
    expect(limit).toBeLessThanOrEqual(256)
    expect(limit * 16).toBeLessThanOrEqual(Number(row!['budget']))
  })

  it('let no scope take a whole batch while others wait', async () => {
    const charge = route(place)
    const flood = Array.from({ length: 600 }, (_, i) => charge(`flood ${i}`, undefined, 'loud'))
    await later(0)
    const startedAt = performance.now()
    let quietMs = 0
    const quiet = charge('quiet', undefined, 'quiet').then(() => (quietMs = performance.now() - startedAt))
    await Promise.all([...flood, quiet])
    const floodMs = performance.now() - startedAt
    expect(quietMs).toBeLessThan(floodMs)
  })
})
