/**
 * Counts the functions and files of the product that one request and one event pass through. A function counts when it
 * is on the stack, awaited callers included, at a point where control leaves the product. Such points are a statement
 * to the database, a call of the handler or the sink, and bytes to the client. Helpers that have returned by then do
 * not count.
 *
 * npm run hops [-- --json]
 */
import { once as emitted } from 'node:events'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { Worker } from 'node:worker_threads'
import express from 'express'
import pg from 'pg'
import { idempotency } from '../src/entry/express.ts'
import { pgStore } from '../src/entry/pg.ts'
import { effectivelyOnce, event, inProcessSink } from '../src/index.ts'
import { isMissing, startServers } from './servers/index.ts'

const { values } = parseArgs({ options: { json: { type: 'boolean', default: false } } })

type Way = 'request' | 'event'
const passed: Record<Way, Map<string, Set<string>>> = { request: new Map(), event: new Map() }
let way: Way | undefined

/** Reads the stacks of the main thread, which stops at each point until its stack has been read. */
const WATCHER = `
const { Session } = require('node:inspector')
const { parentPort } = require('node:worker_threads')
// Keeps this thread alive.
parentPort.on('message', () => {})
const session = new Session()
session.connectToMainThread()
const urls = new Map()
session.on('Debugger.scriptParsed', ({ params }) => urls.set(params.scriptId, params.url))
session.on('Debugger.paused', ({ params }) => {
  const frames = params.callFrames.map(({ functionName, location }) => ({
    functionName,
    url: urls.get(location.scriptId),
  }))
  for (let stack = params.asyncStackTrace; stack; stack = stack.parent) frames.push(...stack.callFrames)
  parentPort.postMessage(frames.map(({ functionName, url }) => ({ functionName, url: url ?? '' })))
  session.post('Debugger.resume')
})
session.post('Debugger.enable')
session.post('Debugger.setAsyncCallStackDepth', { maxDepth: 128 }, () => parentPort.postMessage('ready'))
`

interface Frame {
  readonly functionName: string
  readonly url: string
}

/** Longer than a relay takes to wake up and acknowledge. */
const SETTLE_MS = 1_000

/** The number of stacks that were requested and not read yet. */
const stacks = { unread: 0 }

function point(): void {
  if (way === undefined) return
  stacks.unread += 1
  // oxlint-disable-next-line no-debugger -- the watcher reads the stack here
  debugger
}

function note(frames: readonly Frame[]): void {
  stacks.unread -= 1
  for (const { functionName, url } of frames) {
    const file = /\/(src\/.*)\.[jt]s$/.exec(url)?.[1]
    if (file === undefined || way === undefined) continue
    const names = passed[way].get(file) ?? new Set()
    passed[way].set(file, names.add(functionName || '(anonymous)'))
  }
}

async function main(): Promise<void> {
  const servers = await startServers(['postgres'])
  const watcher = new Worker(WATCHER, { eval: true })
  try {
    if (isMissing(servers.postgres)) throw new Error(`no PostgreSQL: ${servers.postgres.missing}`)
    await emitted(watcher, 'message')
    watcher.on('message', note)
    await walk(servers.postgres.url)
  } finally {
    await watcher.terminate()
    await servers.stop()
  }
}

async function walk(url: string): Promise<void> {
  const send = pg.Client.prototype.query as (...args: unknown[]) => unknown
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]): unknown {
    point()
    return send.apply(this, args)
  } as typeof pg.Client.prototype.query
  const pool = new pg.Pool({ connectionString: url })
  const once = effectivelyOnce({
    namespace: 'hops',
    store: pgStore(pool),
    events: { paid: event<{ id: number }>(({ id }) => `${id}`) },
    guard: 'off',
    sweep: false,
  })
  await once.migrate()
  await pool.query('create table payment (id int)')
  const app = express()
  app.post(
    '/payments',
    idempotency(once, { scope: () => 'hops' })(async (_req, res, { tx, publish }) => {
      point()
      await tx.query('insert into payment values (1)')
      await publish('paid', { id: 1 })
      res.status(201).json({ id: 1 })
    }),
  )
  const server = app.listen(0, '127.0.0.1')
  server.on('connection', (socket: Socket) => {
    const write = socket.write.bind(socket) as (...args: unknown[]) => boolean
    socket.write = (...args: unknown[]) => {
      point()
      return write(...args)
    }
  })
  await emitted(server, 'listening')
  const { port } = server.address() as AddressInfo

  const relay = await once.relay({ to: inProcessSink(() => point()) }).start()
  // The first request and the first event include start-up work, so they do not count.
  await post(port, 'first')
  await sleep(SETTLE_MS)
  relay.pause()
  await along('request', () => post(port, 'second'))
  await along('event', async () => {
    relay.resume()
    await sleep(SETTLE_MS)
  })
  await relay.stop()
  server.close()
  await once.close()
  await pool.end()
}

/** Every function that is passed while this runs counts for this path. */
async function along(name: Way, walkIt: () => Promise<void>): Promise<void> {
  way = name
  await walkIt()
  for (let tries = 0; stacks.unread > 0 && tries < 100; tries++) await sleep(20)
  way = undefined
}

async function post(port: number, key: string): Promise<void> {
  const headers = { 'idempotency-key': key, 'content-type': 'application/json' }
  const response = await fetch(`http://127.0.0.1:${port}/payments`, { method: 'POST', headers, body: '{}' })
  if (response.status !== 201) throw new Error(`answered ${response.status}: ${await response.text()}`)
  await response.text()
}

function print(): void {
  const counted = Object.fromEntries(
    Object.entries(passed).map(([name, files]) => {
      const hops = [...files.values()].reduce((sum, { size }) => sum + size, 0)
      return [name, { hops, files: files.size }]
    }),
  )
  if (values.json) return console.log(JSON.stringify(counted))
  for (const [name, files] of Object.entries(passed)) {
    const { hops = 0, files: count = 0 } = counted[name] ?? {}
    console.log(`\none ${name}: ${hops} functions in ${count} files`)
    for (const [file, names] of files) console.log(`  ${file}: ${[...names].join(', ')}`)
  }
}

await main()
print()
