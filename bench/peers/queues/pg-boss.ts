import { INSERT_CHARGE, newCharge, type Charged } from '../../support/charge.ts'
import { inTransaction, openPool } from '../../support/database.ts'
import { sender } from '../../support/statement.ts'
import { loadPeer } from '../packages.ts'
import { Countdown, INSERT_RECEIPT, POOL, type OpenQueue } from './queue.ts'

interface Db {
  executeSql(text: string, values?: unknown[]): Promise<{ rows: unknown[] }>
}
interface Boss {
  on(event: 'error', tell: (error: unknown) => void): void
  start(): Promise<unknown>
  stop(options: { graceful: boolean }): Promise<void>
  createQueue(name: string): Promise<void>
  send(queue: string, data: object, options: { db: Db }): Promise<unknown>
  work(
    queue: string,
    options: object,
    handle: (jobs: { readonly data: Charged }[], tx: Db) => Promise<void>,
  ): Promise<unknown>
  offWork(queue: string): Promise<void>
}
interface Peer {
  readonly PgBoss: new (options: object) => Boss
}

const QUEUE = 'receipts'
/** Its handler and the end of its jobs in one transaction, and no wait while batches are full. */
const WORK = { transactional: true, batchSize: 100, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 }

export const openPgBoss: OpenQueue = async (url) => {
  const { PgBoss } = await loadPeer<Peer>('pg-boss')
  const boss = new PgBoss({ connectionString: url, ...POOL })
  boss.on('error', (error) => console.error(error))
  await boss.start()
  await boss.createQueue(QUEUE)
  const pool = openPool(url, POOL)
  const send = sender('prepared')
  const done = new Countdown()
  return {
    pools: [pool],
    hasOwnConnections: true,
    publish: () =>
      inTransaction(pool, async (client) => {
        const { account, amount } = newCharge()
        const { rows } = await send(client, INSERT_CHARGE, [account, amount])
        const db: Db = { executeSql: (text, values) => client.query(text, values) }
        await boss.send(QUEUE, { id: rows[0].id, account, amount }, { db })
      }),
    async consume(count) {
      const all = done.until(count)
      await boss.work(QUEUE, WORK, async (jobs, tx) => {
        for (const { data } of jobs) await tx.executeSql(INSERT_RECEIPT, [data.id, data.account])
        done.add(jobs.length)
      })
      await all
      await boss.offWork(QUEUE)
    },
    async close() {
      await boss.stop({ graceful: true })
      await pool.end()
    },
  }
}
