/** A process that works and closes what it opened: `ending-process.ts <task> <store> <where>`. Says how long it lived on. */
import { createHmac } from 'node:crypto'
import pg from 'pg'
import { githubSource } from '../../src/entry/github.ts'
import { pgStore } from '../../src/entry/pg.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { webhookSink } from '../../src/entry/webhook.ts'
import { effectivelyOnce, event, type Consumer, type SqlStore } from '../../src/index.ts'
import type { PushedConsumer } from '../../src/consumer/types.ts'
import { memoryStore } from '../../src/store/memory/memory-store.ts'
import { inProcessSink } from '../../src/sink/in-process.ts'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'

const [, , task = '', kind = 'memory', where = ''] = process.argv
const SECRET = 'a secret'
const pool = kind === 'pg' ? new pg.Pool({ connectionString: where, max: 6 }) : undefined
const store = (
  pool ? pgStore(pool) : kind === 'sqlite' ? sqliteStore({ file: where }) : memoryStore()
) as SqlStore<unknown>
const events = { 'step.made': event<{ n: number }>(() => 'a') }
const once = effectivelyOnce({
  namespace: 'ending',
  store,
  events,
  guard: 'warn',
  observe: () => {},
  listen: kind === 'pg',
})
await once.migrate()

const publish = (n: number): Promise<unknown> =>
  once.run({ scope: 's', key: `k${n}`, input: n }, async (op) => op.publish('step.made', { n }))

const sign = (body: string): string => `sha256=${createHmac('sha256', SECRET).update(body).digest('hex')}`

async function push(consumer: Consumer, id: string): Promise<number> {
  const body = JSON.stringify({ ref: 'main', after: id })
  const headers = { 'x-hub-signature-256': sign(body), 'x-github-delivery': id, 'x-github-event': 'push' }
  const request = { method: 'POST', headers, body: Buffer.from(body), now: Date.now() }
  return (await (consumer as PushedConsumer).receive(request)).status
}

let fails = false
const handler = async (): Promise<void> => {
  if (fails) throw new Error('not now')
}
const pushed = (): Consumer =>
  once.consumer('hooks', { from: githubSource({ secret: SECRET }), attempts: 1 }, { push: handler })
const broker = memoryBroker()
const pulled = (attempts = 1): Consumer =>
  once.consumer('steps', { from: broker.source, attempts }, { 'step.made': handler })
const outbox = (): Consumer => once.consumer('steps', { from: once.outbox }, { 'step.made': handler })

async function redriving(consumer: string): Promise<void> {
  const { id } = await once.redrive.run({ consumer }, { by: 'ada', why: 'why not', rate: 1, canary: 0, pauseAt: 1 })
  fails = false
  for (let looks = 0; (await once.redrive.status(id))?.applied === 0; looks++) {
    if (looks > 1_000) throw new Error('nothing was redriven')
    await new Promise((resolve) => setTimeout(resolve, 10))
  }
}

const tasks: Record<string, () => Promise<unknown>> = {
  nothing: async () => {},
  operations: async () => {
    await publish(1)
    await once.run({ scope: 's', key: 'leased', input: 1, lease: '30s' }, ({ commit }) => commit(() => 1))
  },
  'a relay': async () => {
    await once.relay({ to: inProcessSink(() => {}) }).start()
    await publish(1)
  },
  'a relay that is paused': async () => {
    const relay = await once.relay({ to: inProcessSink(() => {}) }).start()
    relay.pause()
    await publish(1)
  },
  'a relay whose webhook is away': async () => {
    await once.relay({ to: webhookSink({ url: 'http://127.0.0.1:1/', secret: 'whsec_c2VjcmV0LXNlY3JldA==' }) }).start()
    await publish(1)
    await new Promise((resolve) => setTimeout(resolve, 200))
  },
  'a relay that was stopped': async () => {
    const relay = await once.relay({ to: inProcessSink(() => {}) }).start()
    await relay.stop()
  },
  'an outbox consumer': async () => {
    await outbox().start()
    await publish(1)
  },
  'an outbox consumer that was stopped': async () => {
    const consumer = await outbox().start()
    await publish(1)
    await consumer.stop()
  },
  'a pulled consumer': async () => {
    broker.publish({ id: 'm1' }, { id: 'm2' })
    await pulled().start()
  },
  'a pulled consumer whose message waits for a retry': async () => {
    fails = true
    broker.publish({ id: 'm1' })
    await pulled(9).start()
    await new Promise((resolve) => setTimeout(resolve, 300))
  },
  'a pulled consumer that redrives': async () => {
    fails = true
    for (let n = 1; n <= 20; n++) broker.publish({ id: `m${n}` })
    await pulled().drain()
    await pulled().start()
    await redriving('steps')
  },
  'a pushed consumer that was never started': async () => pushed(),
  'a pushed consumer': async () => pushed().start(),
  'a pushed consumer that its first request started': async () => push(pushed(), 'd1'),
  'a pushed consumer that was stopped': async () => {
    const consumer = await pushed().start()
    await push(consumer, 'd1')
    await consumer.stop()
  },
  'a pushed consumer that is starting': async () => void pushed().start(),
  'a pushed consumer that redrives': async () => {
    fails = true
    const consumer = await pushed().start()
    for (let n = 1; n <= 20; n++) await push(consumer, `d${n}`)
    await redriving('hooks')
  },
}

const work = tasks[task]
if (!work) throw new Error(`no task '${task}'`)
await work()
const closingAt = performance.now()
await once.close()
const closedAt = performance.now()
await pool?.end()
process.on('exit', () => {
  const now = performance.now()
  console.log(JSON.stringify({ closedInMs: closedAt - closingAt, endedInMs: now - closedAt }))
})
