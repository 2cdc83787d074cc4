import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { Found } from '../../groups/group.ts'
import { newCharge, newKey, type Charged } from '../../support/charge.ts'
import { countCost, withQuietWal, type Cost } from '../../support/costs.ts'
import { meterCpu } from '../../support/cpu.ts'
import { CALLERS, createDatabase, onServer } from '../../support/database.ts'
import { startHttp, type HttpBench } from '../../support/http.ts'
import { measureHttpRounds, type HttpSubject } from '../../support/http-rounds.ts'
import { foundAgainst } from '../../support/measure.ts'
import type { BenchServer } from '../../support/server.ts'
import { startWireMeter } from '../../support/wire-meter.ts'
import { HTTP_PEERS } from '../peers.ts'

const DATABASE = 'peers_http'
const COUNTED = 500
const STORED_MS = 50
/** All servers are connected to one database, which takes a hundred connections. */
const FEW_CONNECTIONS = { BENCH_CONNECTIONS: '8' }

export interface FoundPeers extends Found {
  readonly costs: Record<string, Cost>
  /** Redis commands of one request. */
  readonly redisCommands: Record<string, number>
  /** Why a peer could not be measured. */
  readonly missing: Record<string, string>
}

interface Options {
  readonly rounds: number
  readonly seconds: number
  progress(text: string): void
}

/** Each peer in a server process of its own; ours, bare and by hand in those of `npm run bench`. */
export async function measureHttpPeers(server: BenchServer, redisUrl: string, options: Options): Promise<FoundPeers> {
  const redis = new Redis(redisUrl)
  const url = await createDatabase(server.url, DATABASE)
  const opened = new Map<string, HttpBench>()
  const missing: Record<string, string> = {}
  try {
    // As Redis is by default: in the peers' favour, because a write does not wait for the disk.
    await redis.config('SET', 'appendonly', 'no')
    const redisPid = await pidOf(redis)
    const subjects: HttpSubject[] = []
    for (const name of Object.keys(HTTP_PEERS)) {
      const { program, args, path } = placeOf(name, redisUrl)
      const id = args[0] as string
      try {
        const http = opened.get(id) ?? (await startHttp(program, [id, url, ...args.slice(1)], FEW_CONNECTIONS))
        opened.set(id, http)
        const meter = await meterCpu(http.pid, server.url, [redisPid])
        await requireReplay(name, `${http.base}${path}`)
        subjects.push({ name, http, meter, path, keys: 'new' })
      } catch (error) {
        missing[name] = String(error)
        options.progress(`${name}: ${String(error)}`)
      }
    }
    const measured = await measureHttpRounds(subjects, options)
    await closeAll(opened)
    const counted = await withQuietWal(server, () =>
      countAll(
        url,
        redisUrl,
        redis,
        subjects.map(({ name }) => name),
        options,
      ),
    )
    const found = foundAgainst(measured, (name) => (HTTP_PEERS[name] as { base: string }).base)
    return { ...found, ...counted, missing }
  } finally {
    await closeAll(opened)
    redis.disconnect()
    await onServer(server.url, `drop database ${DATABASE} with (force)`)
  }
}

/** Only what protects is compared: a second request with the same key must be answered with the first charge. */
async function requireReplay(name: string, address: string): Promise<void> {
  const headers = { 'content-type': 'application/json', 'idempotency-key': newKey() }
  const body = JSON.stringify(newCharge())
  const charge = async (): Promise<unknown> => {
    const response = await fetch(address, { method: 'POST', headers, body })
    if (response.status !== 201) throw new Error(`${name} answered ${response.status}: ${await response.text()}`)
    return ((await response.json()) as Charged).id
  }
  const first = await charge()
  // Some store the answer after they sent it.
  await sleep(STORED_MS)
  if ((await charge()) === first) return
  if (!name.endsWith('.bare')) throw new Error(`${name} charged twice for one key`)
}

interface Place {
  readonly program: string
  /** The first is the server's name; the database's address comes behind it. */
  readonly args: readonly string[]
  readonly path: string
}

/** `fastify.atomic` is a path of the benchmark's own server; a peer has a server of its own. */
function placeOf(name: string, redisUrl: string): Place {
  const [framework, path] = name.split('.') as [string, string?]
  return path === undefined
    ? { program: join('peers', 'http', 'server'), args: [name, redisUrl], path: '/charge' }
    : { program: join('http', 'server'), args: [framework], path: `/${path}` }
}

async function countAll(url: string, redisUrl: string, redis: Redis, names: readonly string[], options: Options) {
  const costs: Record<string, Cost> = {}
  const redisCommands: Record<string, number> = {}
  for (const name of names) {
    const { program, args, path } = placeOf(name, redisUrl)
    const meter = await startWireMeter(url)
    const http = await startHttp(program, [args[0] as string, meter.url, ...args.slice(1)], FEW_CONNECTIONS)
    let commands = 0
    try {
      costs[name] = await countCost({
        url,
        meter,
        warmUp: COUNTED,
        operations: COUNTED,
        async repeat(amount) {
          const before = await commandsOf(redis)
          await http.load({ path, keys: 'new', clients: CALLERS, amount })
          commands = (await commandsOf(redis)) - before
        },
        flush: () => http.flush(),
      })
      // The two INFO commands count themselves once.
      redisCommands[name] = Math.round(commands / COUNTED)
    } finally {
      await http.close()
      await meter.close()
    }
    options.progress(`${name} counted`)
  }
  return { costs, redisCommands }
}

async function closeAll(opened: Map<string, HttpBench>): Promise<void> {
  for (const [id, http] of opened) {
    opened.delete(id)
    await http.close()
  }
}

async function pidOf(redis: Redis): Promise<number> {
  const pid = Number(/process_id:(\d+)/.exec(await redis.info('server'))?.[1])
  if (!readFileSync(`/proc/${pid}/comm`, 'utf8').startsWith('redis'))
    throw new Error('the benchmark measures a Redis of this machine only')
  return pid
}

async function commandsOf(redis: Redis): Promise<number> {
  return Number(/total_commands_processed:(\d+)/.exec(await redis.info('stats'))?.[1])
}
