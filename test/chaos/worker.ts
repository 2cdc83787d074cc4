import pg from 'pg'
import { effectivelyOnce, isFinal, isOnceError } from '../../src/index.ts'
import { pgStore } from '../../src/store/postgres/pg.ts'
import { crashingStore, die, type CrashPoint } from './crashing-store.ts'
import type { Command, Reply } from './workers.ts'

/** One process of the service under test: it charges when it is told to, and reports what the caller would see. */
const pool = new pg.Pool({ connectionString: process.env['CHAOS_URL'], max: 10 })
pool.on('error', () => {})
let crashAt: CrashPoint = 'nowhere'
const once = effectivelyOnce({
  namespace: 'chaos',
  store: crashingStore(pgStore(pool), () => crashAt),
  guard: 'off',
  sweep: false,
})

process.on('message', (command: Command) => {
  void charge(command).then((reply) => process.send?.({ ...reply, number: command.number }))
})
process.send?.({ number: -1, outcome: 'ready' } satisfies Reply)

async function charge(command: Command): Promise<Omit<Reply, 'number'>> {
  crashAt = command.crashAt ?? 'nowhere'
  const startedAt = performance.now()
  try {
    const value = await (command.lease ? leased(command) : atomic(command))
    return { outcome: 'value', value, tookMs: performance.now() - startedAt }
  } catch (error) {
    const code = isOnceError(error) ? error.code : isFinal(error) ? `status ${error.status}` : String(error)
    return { outcome: 'error', code, tookMs: performance.now() - startedAt }
  }
}

function atomic({ key, amount, holdMs, deadline }: Command): Promise<unknown> {
  return once.run({ scope: 'u', key, input: { amount }, ...(deadline && { deadline }) }, async ({ tx }) => {
    const { rows } = await tx.query('insert into charges (key, amount) values ($1, $2) returning id', [key, amount])
    if (crashAt === 'in handler') die()
    process.send?.({ number: -2, outcome: 'inside' } satisfies Reply)
    if (holdMs) await new Promise((resolve) => setTimeout(resolve, holdMs))
    return rows[0]
  })
}

function leased({ key, amount, holdMs, lease }: Command): Promise<unknown> {
  return once.run({ scope: 'u', key, input: { amount }, lease: lease ?? '1s' }, async ({ step, commit }) => {
    const payment = await step('pay', async (s) => {
      // The provider: it honours keys, and lives in a database of its own as far as we are concerned.
      await pool.query('insert into calls (key) values ($1) on conflict (key) do update set times = calls.times + 1', [
        s.key,
      ])
      if (crashAt === 'in step') die()
      return { id: s.key.slice(0, 8) }
    })
    return commit(async ({ tx }) => {
      const { rows } = await tx.query('insert into charges (key, amount) values ($1, $2) returning id', [key, amount])
      process.send?.({ number: -2, outcome: 'inside' } satisfies Reply)
      if (holdMs) await new Promise((resolve) => setTimeout(resolve, holdMs))
      return { ...rows[0], payment: payment.id }
    })
  })
}
