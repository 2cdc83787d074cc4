import { chargeOnce } from '../../scenarios/atomic.ts'
import { batchedCharge } from '../../scenarios/batched.ts'
import { newCharge, newKey } from '../../support/charge.ts'
import { openOnce, openPool, type BenchOnce } from '../../support/database.ts'
import { INSERT_RECEIPT, POOL, type OpenQueue } from './queue.ts'

const RECEIPT = { name: 'insert_receipt', text: INSERT_RECEIPT }

export const openAtomic: OpenQueue = (url) => open(url, (once) => () => chargeOnce(once, newKey()))

export const openBatched: OpenQueue = (url) =>
  open(url, (once) => {
    const charge = batchedCharge(once)
    return () => charge(newKey(), newCharge())
  })

/** With its key and its answer; consumed from the outbox, without a broker. */
async function open(url: string, publishing: (once: BenchOnce) => () => Promise<unknown>): ReturnType<OpenQueue> {
  const pool = openPool(url, { ...POOL, pipeline: true })
  const once = await openOnce(pool)
  const publish = publishing(once)
  return {
    publish,
    pools: [pool],
    async consume(count) {
      const options = { from: once.outbox, pipelined: true }
      const consumer = once.consumer('receipts', options, {
        'charge.created': async ({ data }, { tx }) => {
          await tx.query({ ...RECEIPT, values: [data.id, data.account] })
        },
      })
      const consumed = await consumer.drain()
      if (consumed !== count) throw new Error(`${consumed} of ${count} events were consumed`)
    },
    async close() {
      await once.close()
      await pool.end()
    },
  }
}
