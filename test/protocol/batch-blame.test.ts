import { beforeEach, expect, it } from 'vitest'
import { event } from '../../src/index.ts'
import { later, outcomeOf } from '../support/charges.ts'
import { describeAll, describeClients, type Place } from '../support/stores.ts'

const MANY = 32
const BAD = 9
/** The errors that are the store's, and so everybody's. */
const STORES = /^ONCE_(?:STORE_UNAVAILABLE|COMMIT_UNKNOWN|CONFLICT)$/

let nextId = 5_000_000

interface Input {
  readonly id: number
  readonly bad: boolean
}

function inputs(bad = (i: number): boolean => i === BAD): Input[] {
  return Array.from({ length: MANY }, (_, i) => ({ id: ++nextId, bad: bad(i) }))
}

const UNSERIALISABLE: readonly (readonly [string, () => unknown])[] = [
  ['a bigint inside an object', () => ({ id: 1n })],
  ['a toJSON that throws', () => ({ toJSON: thrower, toPostgres: undefined })],
  ['a toPostgres that throws', () => ({ toPostgres: thrower, toJSON: thrower })],
  ['a cycle', cycle],
  ['a Buffer that is none', () => Object.create(Buffer.prototype) as unknown],
  ['text with a NUL', () => 'a\0b'],
  ['a symbol', () => Symbol('key')],
  ['half a surrogate pair', () => '\ud800'],
]

function thrower(): never {
  throw new RangeError('it cannot be written')
}

function cycle(): object {
  const made: { self?: object } = {}
  made.self = made
  return made
}

async function run(
  of: (operation: { scope: string; key: string; input: Input }) => Promise<unknown>,
  all: readonly Input[],
): Promise<string[]> {
  return Promise.all(all.map((input) => outcomeOf(of({ scope: 'u', key: `blame ${input.id}`, input }))))
}

const SQL = 'insert into charges (id, key, amount) values ($1, $2, 1) returning id'

describeAll('one batched request among many', (place) => {
  it.each(UNSERIALISABLE)('whose values hold %s fails alone', async (_, make) => {
    const charge = place.once().batched({
      statement: ({ id, bad }: Input) => ({ sql: SQL, values: [id, bad ? make() : 'fine'] }),
      respond: ([row]) => row!['id'],
    })
    const all = inputs()
    const outcomes = await run(charge, all)
    expect(outcomes.filter((outcome, i) => i !== BAD && outcome !== 'value')).toEqual([])
    expect(outcomes[BAD]).not.toMatch(STORES)
    expect(
      await run(
        charge,
        inputs(() => false),
      ),
    ).toEqual(Array.from({ length: MANY }, () => 'value'))
  })

  it.each<[string, string, (n: number) => unknown]>([
    ['a NUL', 'select \0 1', () => 1],
    ['too few values', SQL, () => 1],
    ['a statement that does not exist', 'inzert into charges', () => 1],
  ])('whose SQL has %s fails alone', async (_, sql, value) => {
    const charge = place.once().batched({
      statement: ({ id, bad }: Input) => (bad ? { sql, values: [value(id)] } : { sql: SQL, values: [id, 'fine'] }),
      respond: ([row]) => row!['id'],
    })
    const outcomes = await run(charge, inputs())
    expect(outcomes.filter((outcome, i) => i !== BAD && outcome !== 'value')).toEqual([])
    expect(outcomes[BAD]).not.toBe('value')
    expect(outcomes[BAD]).not.toMatch(STORES)
  })

  it.each<[string, string, (row: unknown) => unknown]>([
    ['throws', 'RangeError', thrower],
    ['rejects', 'RangeError', () => Promise.resolve().then(thrower)],
    ['answers what JSON refuses', 'ONCE_ANSWER_INVALID', () => ({ id: 1n })],
    ['answers later what JSON refuses', 'ONCE_ANSWER_INVALID', async () => cycle()],
    ['answers too much', 'ONCE_ANSWER_TOO_LARGE', () => 'x'.repeat(9 * 1024 * 1024)],
    ['never answers', 'ONCE_DEADLINE', () => new Promise(() => {})],
  ])('whose respond %s fails alone', async (_, code, bad) => {
    const charge = place.once({ deadline: '600ms' }).batched({
      statement: ({ id }: Input) => ({ sql: SQL, values: [id, 'fine'] }),
      respond: ([row], input) => (input.bad ? bad(row) : row!['id']),
    })
    const outcomes = await run(charge, inputs())
    expect(outcomes).toEqual(outcomes.map((_, i) => (i === BAD ? code : 'value')))
  })

  it('may answer by a promise', async () => {
    const charge = place.once().batched({
      statement: ({ id }: Input) => ({ sql: SQL, values: [id, 'fine'] }),
      respond: async ([row]) => ({ made: Number(row!['id']) }),
    })
    const all = inputs()
    const answers: { made: number }[] = await Promise.all(
      all.map((input) => charge({ scope: 'u', key: `promised ${input.id}`, input })),
    )
    expect(answers.map(({ made }) => made)).toEqual(all.map(({ id }) => id))
  })

  it('whose statement cannot be made fails before it joins a batch', async () => {
    const charge = place.once().batched({
      statement: ({ id, bad }: Input) => (bad ? thrower() : { sql: SQL, values: [id, 'fine'] }),
      respond: ([row]) => row!['id'],
    })
    const outcomes = await run(charge, inputs())
    expect(outcomes).toEqual(outcomes.map((_, i) => (i === BAD ? 'RangeError' : 'value')))
  })
})

describeClients('one batched request among many on a server', (place) => {
  beforeEach(async () => {
    await place.bed.admin('delete from accounts')
    await place.bed.admin('insert into accounts (id, balance) values (1, 100), (2, 100), (3, 100)')
  })

  /** Requests that touch the account they name. */
  const debits = (of: Place, deadline: `${number}ms`) =>
    of.once({ deadline }).batched({
      statement: ({ account }: { n: number; account: number }) => ({
        sql: 'update accounts set balance = balance + 1 where id = $1 returning balance',
        values: [account],
      }),
      respond: ([row]) => Number(row!['balance']),
    })

  /** Runs while somebody else's transaction has done this and does not end. */
  async function beside(statement: string, work: () => Promise<void>): Promise<void> {
    const held = place.bed.admin(`do $$ begin ${statement}; perform pg_sleep(60); end $$`).catch(() => 'ended')
    const mine = `from pg_stat_activity where datname = current_database() and wait_event = 'PgSleep'`
    while ((await place.bed.admin(`select pid ${mine}`)).length === 0) await later(10)
    try {
      await work()
    } finally {
      await place.bed.admin(`select pg_cancel_backend(pid) ${mine}`)
      await held
    }
  }

  const lock = (...accounts: number[]): string =>
    `update accounts set balance = balance where id in (${accounts.join(', ')})`

  async function timed(accountOf: (i: number) => number): Promise<{ outcomes: string[]; ms: number }> {
    const debit = debits(place, '2000ms')
    const startedAt = performance.now()
    const outcomes = await Promise.all(
      Array.from({ length: MANY }, (_, i) => {
        const input = { n: ++nextId, account: accountOf(i) }
        return outcomeOf(debit({ scope: 'u', key: `debit ${input.n}`, input }))
      }),
    )
    return { outcomes, ms: performance.now() - startedAt }
  }

  it('when the completing statement is the victim of a deadlock: the batch runs again', async () => {
    const once = place.once({ events: { 'charge.created': event<{ id: number }>(() => 'one aggregate') } })
    const publish = (of: { publish: unknown }): Promise<unknown> =>
      (of.publish as (type: string, data: unknown) => Promise<unknown>)('charge.created', { id: 1 })
    const debit = once.batched({
      statement: (_: number) => ({
        sql: 'update accounts set balance = balance + 1 where id = 1 returning balance',
        values: [],
      }),
      respond: ([row], _, op) => {
        void publish(op)
        return Number(row!['balance'])
      },
    })
    let running: Promise<string[]> | undefined
    await place.bed.own(async (tx) => {
      // The batch is to be the victim: it looks first.
      await place.bed.raw(tx, `set local deadlock_timeout = '20s'`)
      // The shard's lock, until the end of this transaction.
      await publish(once.join(tx))
      running = Promise.all([1, 2, 3, 4].map((n) => outcomeOf(debit({ scope: 'u', key: `deadlock ${n}`, input: n }))))
      await later(300)
      await place.bed.raw(tx, 'update accounts set balance = balance where id = 1 returning id')
    })
    expect(await running).toEqual(['value', 'value', 'value', 'value'])
    const [row] = await place.bed.admin('select balance from accounts where id = 1')
    expect(Number(row!['balance'])).toBe(104)
  })

  it('that waits for a lock until its deadline fails alone', async () => {
    await beside(lock(1), async () => {
      const { outcomes, ms } = await timed((i) => (i === BAD ? 1 : 2))
      expect(outcomes).toEqual(outcomes.map((_, i) => (i === BAD ? 'ONCE_DEADLINE' : 'value')))
      expect(ms).toBeLessThan(4_000)
    })
    const [row] = await place.bed.admin('select balance from accounts where id = 2')
    expect(Number(row!['balance'])).toBe(100 + MANY - 1)
  })

  it('that waits for a lock beside another one that does', async () => {
    await beside(lock(1, 3), async () => {
      const { outcomes } = await timed((i) => (i === BAD ? 1 : i === BAD + 7 ? 3 : 2))
      expect(outcomes).toEqual(outcomes.map((_, i) => (i === BAD || i === BAD + 7 ? 'ONCE_DEADLINE' : 'value')))
    })
  })

  it('when all wait for the same lock: all are told, within twice their deadline', async () => {
    await beside(lock(1), async () => {
      const { outcomes, ms } = await timed(() => 1)
      expect(outcomes).toEqual(outcomes.map(() => 'ONCE_DEADLINE'))
      expect(ms).toBeLessThan(6_000)
    })
  })

  it('that ends its own connection: the others run without it', async () => {
    const charge = place.once().batched({
      statement: ({ id, bad }: Input) =>
        bad
          ? { sql: 'select pg_terminate_backend(pg_backend_pid()), pg_sleep(1)::text as slept', values: [] }
          : { sql: SQL, values: [id, 'fine'] },
      respond: (rows) => rows.length,
    })
    const outcomes = await run(charge, inputs())
    expect(outcomes).toEqual(outcomes.map((_, i) => (i === BAD ? 'ONCE_STORE_UNAVAILABLE' : 'value')))
  })

  it('when somebody ends their connection: they run again, and nothing twice', async () => {
    const all = inputs(() => false)
    const charge = place.once().batched({
      statement: ({ id }: Input) => ({ sql: SQL, values: [id, 'killed'] }),
      respond: ([row]) => row!['id'],
    })
    let running: Promise<string[]> | undefined
    const statement = `insert into charges (id, key, amount) values (${all[BAD]!.id}, 'held', 1)`
    await beside(statement, async () => {
      running = run(charge, all)
      const waiting = `from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      while ((await place.bed.admin(`select pg_terminate_backend(pid) ${waiting}`)).length === 0) await later(10)
    })
    const outcomes = await running
    expect(outcomes).toEqual(outcomes!.map(() => 'value'))
    const [row] = await place.bed.admin(`select count(*) as n from charges where key = 'killed'`)
    expect(Number(row!['n'])).toBe(MANY)
  })
})
