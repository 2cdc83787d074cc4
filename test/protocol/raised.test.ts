import { beforeAll, expect, it } from 'vitest'
import { isOnceError } from '../../src/index.ts'
import { sqlStateOf } from '../../src/store/postgres/driver/sqlstate.ts'
import { countCharges, insertCharge } from '../support/charges.ts'
import { describeClients, describeEmbedded, type Place } from '../support/stores.ts'

/** What a function of the user's may raise: its own, and what looks like ours, like Prisma's, like a lost connection. */
const RAISED = [
  'P0001',
  'P1234',
  'EO001',
  'EO002',
  '08006',
  '57P01',
  '25P02',
  '25P03',
  '25P04',
  '42P01',
  '26000',
  '0A000',
]

const FUNCTIONS = [
  `create function boom(state text) returns text language plpgsql as $$
begin raise exception using errcode = state, message = 'no such account'; end $$`,
  'create table late (id int generated always as identity primary key, state text not null)',
  `create function late_boom() returns trigger language plpgsql as $$
begin if new.state <> 'fine' then raise exception using errcode = new.state, message = 'the books do not balance'; end if; return null; end $$`,
  `create constraint trigger late_boom after insert on late deferrable initially deferred
for each row execute function late_boom()`,
]

/** Whose error a promise came to: a code of ours, the database's own word as it came, or 'value'. */
async function blamed(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'value'
  } catch (error) {
    return isOnceError(error) ? error.code : `theirs ${sqlStateOf(error) ?? String(error)}`
  }
}

function raises(place: Place): void {
  beforeAll(async () => {
    for (const statement of FUNCTIONS) await place.bed.admin(statement)
  })

  it.each(RAISED)("a handler's statement that raises %s: its own error, as it came", async (state) => {
    const run = place.once().run({ scope: 'u', key: `now ${state}`, input: 1 }, async ({ tx }) => {
      await insertCharge(place, tx, `now ${state}`)
      await place.bed.raw(tx, 'select boom($1)', [state])
    })
    expect(await blamed(run)).toBe(`theirs ${state}`)
    expect(await countCharges(place, `now ${state}`)).toBe(0)
  })

  it.each(RAISED)('a deferred trigger that raises %s: nothing was committed, and nobody is in doubt', async (state) => {
    const key = `deferred ${state}`
    const run = (raised: string): Promise<unknown> =>
      place.once().run({ scope: 'u', key, input: raised }, async ({ tx }) => {
        await insertCharge(place, tx, key)
        await place.bed.raw(tx, 'insert into late (state) values ($1) returning id', [raised])
        return 'done'
      })
    expect(await blamed(run(state))).toBe(`theirs ${state}`)
    expect(await countCharges(place, key)).toBe(0)
    expect(await run('fine')).toBe('done')
    expect(await countCharges(place, key)).toBe(1)
  })

  it.each(RAISED)('one of 32 batched requests that raises %s: the others do not notice', async (state) => {
    const charge = place.once().batched({
      statement: (of: string) => ({
        sql: 'select case when $1::text = $2::text then $1::text else boom($1::text) end as of',
        values: [of, 'fine'],
      }),
      respond: ([row]) => row!['of'],
    })
    const inputs = Array.from({ length: 32 }, (_, i) => (i === 9 ? state : 'fine'))
    const outcomes = await Promise.all(
      inputs.map((input, i) => blamed(charge({ scope: 'u', key: `batch ${state} ${i}`, input }))),
    )
    expect(outcomes).toEqual(inputs.map((input) => (input === 'fine' ? 'value' : `theirs ${state}`)))
  })

  it.each(['P0001', 'EO001', '57P01'])('one of 8 batched requests whose trigger raises %s at COMMIT', async (state) => {
    const charge = place.once().batched({
      statement: (of: string) => ({ sql: 'insert into late (state) values ($1) returning id', values: [of] }),
      respond: (rows) => rows.length,
    })
    const inputs = Array.from({ length: 8 }, (_, i) => (i === 5 ? state : 'fine'))
    const outcomes = await Promise.all(
      inputs.map((input, i) => blamed(charge({ scope: 'u', key: `late ${state} ${i}`, input }))),
    )
    expect(outcomes).toEqual(inputs.map((input) => (input === 'fine' ? 'value' : `theirs ${state}`)))
  })

  it.each(['P0001', 'EO001', '57P01', '08006'])(
    '%s raised in step.tx and in commit of a leased operation',
    async (state) => {
      const run = (where: string): Promise<unknown> =>
        place
          .once()
          .run({ scope: 'u', key: `leased ${where} ${state}`, input: 1, lease: '5s' }, async ({ step, commit }) => {
            const boom = (at: string, tx: unknown): Promise<unknown> =>
              where === at
                ? place.bed.raw(tx, 'select boom($1)', [state])
                : where === `${at} deferred`
                  ? place.bed.raw(tx, 'insert into late (state) values ($1) returning id', [state])
                  : Promise.resolve()
            await step.tx('note', async ({ tx }) => void (await boom('step', tx)))
            return commit(async ({ tx }) => void (await boom('commit', tx)))
          })
      for (const where of ['step', 'step deferred', 'commit', 'commit deferred'])
        expect([where, await blamed(run(where))]).toEqual([where, `theirs ${state}`])
      expect(await blamed(run('nowhere'))).toBe('value')
    },
  )

  it('a serialization failure that is raised asks for another run, and gets it', async () => {
    let runs = 0
    const once = place.once()
    const run = once.run({ scope: 'u', key: 'again', input: 1 }, async ({ tx }) => {
      if (++runs < 3) await place.bed.raw(tx, 'select boom($1)', ['40001'])
      return insertCharge(place, tx, 'again')
    })
    expect(await blamed(run)).toBe('value')
    expect(runs).toBe(3)
    const never = once.run({ scope: 'u', key: 'never', input: 1 }, ({ tx }) =>
      place.bed.raw(tx, 'select boom($1)', ['40001']),
    )
    expect(await blamed(never)).toBe('ONCE_CONFLICT')
  })

  it.each(['step', 'commit'])('the same in %s of a leased operation', async (where) => {
    const once = place.once()
    const run = (times: number): Promise<unknown> => {
      let runs = 0
      const boom = async (at: string, tx: unknown): Promise<void> => {
        if (at === where && ++runs <= times) await place.bed.raw(tx, 'select boom($1)', ['40P01'])
        await insertCharge(place, tx, `${where} ${times} ${at}`)
      }
      const operation = { scope: 'u', key: `${where} conflicts ${times} times`, input: 1, lease: '5s' } as const
      return once.run(operation, async ({ step, commit }) => {
        await step.tx('note', ({ tx }) => boom('step', tx))
        return commit(({ tx }) => boom('commit', tx))
      })
    }
    expect(await blamed(run(2))).toBe('value')
    expect(await countCharges(place, `${where} 2 step`)).toBe(1)
    expect(await countCharges(place, `${where} 2 commit`)).toBe(1)
    expect(await blamed(run(99))).toBe('ONCE_CONFLICT')
    expect(await countCharges(place, `${where} 99 commit`)).toBe(0)
  })
}

describeClients('what the SQL of a user raises', raises)

describeEmbedded("what an embedded database's SQL raises", (place, client) => {
  if (client !== 'SQLite') return raises(place)
  beforeAll(async () => {
    await place.bed.admin('create table books (id integer primary key, state text)')
    await place.bed.admin(
      `create trigger books_abort before insert on books when new.state = 'abort' begin select raise(abort, 'no such account'); end`,
    )
    await place.bed.admin(
      `create trigger books_fail before insert on books when new.state = 'fail' begin select raise(fail, 'no such account'); end`,
    )
    await place.bed.admin(
      `create trigger books_rollback before insert on books when new.state = 'rollback' begin select raise(rollback, 'no such account'); end`,
    )
    await place.bed.admin(
      'create table entries (id integer primary key, book integer references books (id) deferrable initially deferred)',
    )
  })
  const INSERT = 'insert into books (state) values ($1) returning id'

  it.each(['abort', 'fail', 'rollback'])('raise(%s) in a handler: its own error', async (how) => {
    const run = place
      .once()
      .run({ scope: 'u', key: `raise ${how}`, input: 1 }, ({ tx }) => place.bed.raw(tx, INSERT, [how]))
    expect(await blamed(run)).toMatch(/^theirs .*Error: no such account$/)
  })

  it.each(['abort', 'fail', 'rollback'])('raise(%s) in one of 32 batched requests', async (how) => {
    const charge = place.once().batched({
      statement: (of: string) => ({ sql: INSERT, values: [of] }),
      respond: (rows) => rows.length,
    })
    const inputs = Array.from({ length: 32 }, (_, i) => (i === 9 ? how : 'fine'))
    const outcomes = await Promise.all(
      inputs.map((input, i) => blamed(charge({ scope: 'u', key: `batch ${how} ${i}`, input }))),
    )
    expect(outcomes.map((outcome) => outcome.slice(0, 6))).toEqual(
      inputs.map((input) => (input === 'fine' ? 'value' : 'theirs')),
    )
  })

  it('a deferred foreign key at COMMIT, alone and in a batch', async () => {
    const sql = 'insert into entries (book) values ($1) returning id'
    const run = place.once().run({ scope: 'u', key: 'orphan', input: 1 }, ({ tx }) => place.bed.raw(tx, sql, [-1]))
    expect(await blamed(run)).toContain('FOREIGN KEY')
    const entry = place.once().batched({
      statement: (of: number | null) => ({ sql, values: [of] }),
      respond: (rows) => rows.length,
    })
    const outcomes = await Promise.all(
      Array.from({ length: 8 }, (_, i) => blamed(entry({ scope: 'u', key: `entry ${i}`, input: i === 5 ? -1 : null }))),
    )
    expect(outcomes.map((outcome) => outcome.includes('FOREIGN KEY'))).toEqual(outcomes.map((_, i) => i === 5))
  })
})
