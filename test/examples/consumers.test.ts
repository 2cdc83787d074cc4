import { createHmac } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect } from '@nats-io/transport-node'
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest'
import type { CrashPoint } from '../../examples/crash.ts'
import { events } from '../../examples/04-nats-consumer/catalogue.ts'
import { natsSink } from '../../src/entry/nats.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { eventually, Example, sleep } from './support/example.ts'

const TIMEOUT_MS = 180_000
/** Longer than the broker waits before it delivers what a dead process held. */
const REDELIVERY_MS = 2_500

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'effectively-once-example-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

/** By plain SQL on the example's own file; 0 while there is no table. */
async function count(file: string, table: string): Promise<number> {
  const store = sqliteStore({ file })
  try {
    const { rows } = await store.transaction((tx) => tx.query<{ n: number }>(`select count(*) as n from ${table}`))
    return rows[0]?.n ?? 0
  } catch {
    return 0
  } finally {
    await store.close()
  }
}

const nats = inject('servers').nats
describe.skipIf('missing' in nats)('example 04-nats-consumer', () => {
  it(
    'killed before its commit, killed before its acknowledgement, delivered again and sent twice: one receipt each',
    async () => {
      const url = 'url' in nats ? nats.url : ''
      const stream = `example-${Date.now()}`
      const connection = await connect({ servers: url })
      const manager = await jetstreamManager(connection)
      await manager.streams.add({ name: stream, subjects: [`${stream}.>`] })
      const producer = effectivelyOnce({
        namespace: 'payments',
        store: sqliteStore({ file: join(folder, 'payments.db') }),
        events,
      })
      const file = join(folder, 'receipts.db')
      const env = { NATS_URL: url, STREAM: stream, FILE: file }
      const start = (crashAt?: CrashPoint): Promise<Example> => Example.start('04-nats-consumer', env, crashAt)
      try {
        await producer.migrate()
        await producer.run({ scope: 'global', key: 'a', input: 1 }, async ({ publish }) => {
          await publish('charge.created', { id: 1, customer: 'ann' })
          await publish('charge.created', { id: 2, customer: 'ben' })
        })
        const relay = producer.relay({ to: natsSink(jetstream(connection), { stream }) })
        expect(await relay.drain()).toBe(2)

        const before = await start('before-commit')
        expect(await before.death()).toBe('SIGKILL')
        expect(await count(file, 'receipts')).toBe(0)

        const after = await start('after-commit')
        expect(await after.death()).toBe('SIGKILL')
        const committed = await count(file, 'receipts')
        expect(committed).toBeGreaterThanOrEqual(1)

        const example = await start()
        try {
          expect(await eventually(async () => (await count(file, 'receipts')) >= 2)).toBe(true)
          // Sent once more on purpose, under ids the broker does not know.
          expect(await producer.resend({ since: new Date(0) })).toBe(2)
          expect(await relay.drain()).toBe(2)
          const isDone = async (): Promise<boolean> => {
            const { num_pending, num_ack_pending } = await manager.consumers.info(stream, 'receipts')
            return num_pending + num_ack_pending === 0
          }
          expect(await eventually(isDone)).toBe(true)
          await sleep(REDELIVERY_MS)
          expect(await count(file, 'receipts')).toBe(2)
        } finally {
          await example.stop()
        }
      } finally {
        await producer.close()
        await manager.streams.delete(stream)
        await connection.close()
      }
    },
    TIMEOUT_MS,
  )
})

describe('example 05-webhook-receiver', () => {
  const secret = 'whsec_example_secret'
  const body = JSON.stringify({
    id: 'evt_1',
    type: 'invoice.paid',
    data: { object: { id: 'in_1', amount_paid: 500 } },
  })
  const signed = (): Record<string, string> => {
    const t = Math.floor(Date.now() / 1_000)
    const v1 = createHmac('sha256', secret).update(`${t}.${body}`).digest('hex')
    return { 'content-type': 'application/json', 'stripe-signature': `t=${t},v1=${v1}` }
  }

  it(
    'killed before its commit, killed before its answer, called again: one payment',
    async () => {
      const file = join(folder, 'billing.db')
      const env = { STRIPE_SECRET: secret, FILE: file }
      const start = (crashAt?: CrashPoint): Promise<Example> => Example.start('05-webhook-receiver', env, crashAt)
      const call = (example: Example, headers = signed()): Promise<Response | undefined> =>
        example.post('/webhooks/stripe', body, headers)

      const before = await start('before-commit')
      expect(await call(before)).toBeUndefined()
      expect(await count(file, 'payments')).toBe(0)

      const after = await start('after-commit')
      expect(await call(after)).toBeUndefined()
      expect(await after.death()).toBe('SIGKILL')
      expect(await count(file, 'payments')).toBe(1)

      const example = await start()
      try {
        for (let i = 0; i < 3; i++) expect((await call(example))?.status).toBe(200)
        expect((await call(example, { 'stripe-signature': 't=1,v1=00' }))?.status).toBe(401)
        expect(await count(file, 'payments')).toBe(1)
      } finally {
        await example.stop()
      }
    },
    TIMEOUT_MS,
  )
})
