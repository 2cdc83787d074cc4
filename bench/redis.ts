import { Redis } from 'ioredis'
import { createClient } from 'redis'
import { parseArgs } from 'node:util'
import { startAlone } from '../scripts/servers/index.ts'
import type { Answer } from '../src/lifecycle/answer.ts'
import { systemRandom } from '../src/platform/random.ts'
import { redisStore } from '../src/store/redis/redis-store.ts'
import type { Claim } from '../src/store/store.ts'
import { meterCpu, perOperation, type Cpu } from './support/cpu.ts'

/** Claim and completion of the Redis store, to two bare SETs of the same size. */
const RATE_MIN = 0.5
const CLIENTS = ['ioredis', 'node-redis'] as const
type ClientName = (typeof CLIENTS)[number]

const USAGE = `npm run bench:redis -- [options]
  --rounds <n>    rounds of each kind, in turns (default 11)
  --seconds <s>   length of each kind in each round (default 0.5)
  --callers <n>   concurrent callers on one connection (default 32)
  --client <c>    ${CLIENTS.join(' or ')} (default: both)
  --memory        without the server's file, whose fsync costs both kinds the same
  --json          machine-readable results on standard output
  --check         exit 1 when claim and completion reach less than ${RATE_MIN} of the rate of two SETs`

interface Measured {
  /** Operations per second: two SETs, or a claim and its completion. */
  readonly rate: number
  readonly cpu: Cpu
}

interface Report {
  readonly client: ClientName
  readonly bare: Measured
  readonly store: Measured
  /** The median of the rounds' ratios: of the rates, and of the CPU time of the client's process and of the server. */
  readonly rateRatio: number
  readonly processRatio: number
  readonly serverRatio: number
}

/** One operation of each kind. */
interface Pair {
  bare(): Promise<unknown>
  store(): Promise<unknown>
  close(): Promise<void>
}

const ANSWER: Answer = {
  status: 201,
  headers: [['content-type', 'application/json']],
  body: Buffer.from(JSON.stringify({ id: 'ch_0123456789abcdef', amount: 4_200, currency: 'eur' })),
  kept: true,
}
/** As long as what the store writes, so that both kinds send the same number of bytes. */
const CLAIM_TEXT = 'c'.repeat(200)
const ANSWER_TEXT = 'a'.repeat(300)
const KEPT_MS = 86_400_000

function claimOf(id: string): Claim {
  return { id, fingerprint: id, fingerprintVersion: 1, replayForMs: KEPT_MS, goneForMs: KEPT_MS } as Claim
}

/** An id as long as a real one. */
function newId(): string {
  return systemRandom.uuid().replaceAll('-', '')
}

async function openPair(client: ClientName, url: string): Promise<Pair> {
  if (client === 'ioredis') {
    const redis = new Redis(url)
    const set = async (): Promise<void> => {
      const key = `bare:{${newId()}}`
      await redis.set(key, CLAIM_TEXT)
      await redis.set(key, ANSWER_TEXT, 'PX', KEPT_MS)
    }
    return { bare: set, store: operationOn(redisStore(redis)), close: async () => redis.disconnect() }
  }
  const redis = createClient({ url })
  await redis.connect()
  const set = async (): Promise<void> => {
    const key = `bare:{${newId()}}`
    await redis.set(key, CLAIM_TEXT)
    await redis.set(key, ANSWER_TEXT, { expiration: { type: 'PX', value: KEPT_MS } })
  }
  return { bare: set, store: operationOn(redisStore(redis)), close: async () => redis.destroy() }
}

function operationOn({ leases }: ReturnType<typeof redisStore>): () => Promise<void> {
  return async () => {
    const claim = claimOf(newId())
    const { claimed } = await leases.claim({ claim, leaseMs: 30_000 } as Parameters<typeof leases.claim>[0])
    if (!claimed || !(await leases.finish({ id: claim.id, token: claimed.token, claim, answer: ANSWER }))) {
      throw new Error('a new key was not claimed and completed')
    }
  }
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      rounds: { type: 'string', default: '11' },
      seconds: { type: 'string', default: '0.5' },
      callers: { type: 'string', default: '32' },
      client: { type: 'string' },
      memory: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  })
  const [rounds, seconds, callers] = [Number(values.rounds), Number(values.seconds), Number(values.callers)]
  const clients = CLIENTS.filter((name) => values.client === undefined || values.client === name)
  if (values.help || !(rounds >= 1) || !(seconds > 0) || !(callers >= 1) || clients.length === 0) {
    console.log(USAGE)
    return values.help ? 0 : 2
  }
  const server = await startAlone('redis')
  if ('missing' in server) throw new Error(server.missing)
  const reports: Report[] = []
  try {
    for (const client of clients) {
      reports.push(await measure({ client, url: server.url, rounds, seconds, callers, memory: values.memory }))
    }
  } finally {
    await server.stop()
  }
  console.log(
    values.json ? JSON.stringify({ rounds, seconds, callers, memory: values.memory, reports }) : text(reports),
  )
  return values.check && reports.some(({ rateRatio }) => rateRatio < RATE_MIN) ? 1 : 0
}

interface Params {
  readonly client: ClientName
  readonly url: string
  readonly rounds: number
  readonly seconds: number
  readonly callers: number
  readonly memory: boolean
}

async function measure({ client, url, rounds, seconds, callers, memory }: Params): Promise<Report> {
  const control = new Redis(url)
  if (memory) await control.config('SET', 'appendonly', 'no')
  const pid = Number(/process_id:(\d+)/.exec(await control.info('server'))?.[1])
  const meter = await meterCpu(process.pid, null, [pid])
  const pair = await openPair(client, url)
  const run = async (operation: () => Promise<unknown>): Promise<Measured> => {
    await control.flushall()
    const [before, startedAt] = [meter.read(), performance.now()]
    const until = startedAt + seconds * 1_000
    let operations = 0
    const caller = async (): Promise<void> => {
      while (performance.now() < until) {
        await operation()
        operations++
      }
    }
    await Promise.all(Array.from({ length: callers }, caller))
    const rate = (operations / (performance.now() - startedAt)) * 1_000
    return { rate, cpu: perOperation(before, meter.read(), operations) }
  }
  const [bare, store]: [Measured[], Measured[]] = [[], []]
  try {
    // The first rounds compile the code.
    for (let round = -2; round < rounds; round++) {
      const [first, second] = round % 2 === 0 ? [pair.bare, pair.store] : [pair.store, pair.bare]
      const [a, b] = [await run(first), await run(second)]
      if (round < 0) continue
      bare.push(first === pair.bare ? a : b)
      store.push(first === pair.bare ? b : a)
    }
  } finally {
    await pair.close()
    control.disconnect()
  }
  const ratio = (of: (measured: Measured) => number): number =>
    median(store.map((measured, i) => of(measured) / of(bare[i] as Measured)))
  return {
    client,
    bare: medianOf(bare),
    store: medianOf(store),
    rateRatio: ratio(({ rate }) => rate),
    processRatio: ratio(({ cpu }) => cpu.process),
    serverRatio: ratio(({ cpu }) => cpu.server),
  }
}

function medianOf(all: readonly Measured[]): Measured {
  const of = (figure: (measured: Measured) => number): number => median(all.map(figure))
  return {
    rate: of(({ rate }) => rate),
    cpu: { process: of(({ cpu }) => cpu.process), server: of(({ cpu }) => cpu.server) },
  }
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN
}

function text(reports: readonly Report[]): string {
  const line = (name: string, { rate, cpu }: Measured): string =>
    `  ${name.padEnd(20)} ${rate.toFixed(0).padStart(7)}/s   CPU: process ${cpu.process.toFixed(1)} us, server ${cpu.server.toFixed(1)} us`
  return reports
    .flatMap(({ client, bare, store, rateRatio, processRatio, serverRatio }) => [
      client,
      line('two SETs', bare),
      line('claim and completion', store),
      `  ratio: rate ${rateRatio.toFixed(3)}, CPU of the process ${processRatio.toFixed(2)}, of the server ${serverRatio.toFixed(2)}`,
    ])
    .join('\n')
}

process.exitCode = await main()
