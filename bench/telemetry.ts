import { fork, type ChildProcess } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import * as api from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import {
  BasicTracerProvider,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  type ReadableSpan,
  type SpanExporter,
} from '@opentelemetry/sdk-trace-base'
import { effectivelyOnce, inProcessSink, type Store } from '../src/index.ts'
import { memoryStore } from '../src/store/memory/memory-store.ts'
import { pgStore } from '../src/store/postgres/pg.ts'
import { otel } from '../src/telemetry/otel.ts'
import { prometheus } from '../src/telemetry/prometheus.ts'
import { createDatabase, events, openPool } from './support/database.ts'
import { startPostgres } from './support/server.ts'

/** How much CPU time of the process telemetry may add, at 1 % sampling. */
const COST_MAX = 0.1
const SAMPLED = 0.01
const CALLERS = 16
/** Until a process has compiled its code. */
const WARM_ROUNDS = 5

const USAGE = `npm run bench:telemetry -- [options]
  --operations <n>   operations of a round (default 5000)
  --rounds <n>       rounds of each kind, in turns (default 15)
  --memory           on the memory store, where an operation costs little: what telemetry adds, in microseconds
  --json             machine-readable results on standard output
  --check            exit 1 when telemetry adds ${COST_MAX * 100} % of CPU time or more`

/**
 * 'bare': no OpenTelemetry at all. 'sdk': the application has its own spans of requests, and the instance has no
 * telemetry. The others add telemetry to 'sdk'.
 */
type Kind = 'bare' | 'sdk' | 'metrics' | 'traces' | 'both'
const KINDS: readonly Kind[] = ['bare', 'sdk', 'metrics', 'traces', 'both']

/** Counts what it gets, and exports nothing. */
class CountingExporter implements SpanExporter {
  spans = 0
  export(spans: readonly ReadableSpan[], done: (result: { code: number }) => void): void {
    this.spans += spans.length
    done({ code: 0 })
  }
  async shutdown(): Promise<void> {}
}

async function main(): Promise<number> {
  const { values } = parseArgs({
    options: {
      operations: { type: 'string', default: '5000' },
      rounds: { type: 'string', default: '15' },
      memory: { type: 'boolean', default: false },
      json: { type: 'boolean', default: false },
      check: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
      // For the processes of this program.
      kind: { type: 'string' },
      database: { type: 'string' },
    },
  })
  const [operations, rounds] = [Number(values.operations), Number(values.rounds)]
  if (values.help || !(operations >= 1) || !(rounds >= 1)) {
    console.log(USAGE)
    return values.help ? 0 : 2
  }
  const kind = KINDS.find((known) => known === values.kind)
  if (kind) {
    serve(kind, values.database, operations)
    return 0
  }
  const server = values.memory ? null : await startPostgres(null)
  try {
    const report = await measure(server?.url ?? null, operations, rounds)
    console.log(values.json ? JSON.stringify(report, null, 2) : asText(report))
    return values.check && report.cost.both.median >= COST_MAX ? 1 : 0
  } finally {
    await server?.stop()
  }
}

interface Report {
  readonly operations: number
  readonly rounds: number
  /** CPU microseconds of the process: one operation with its event, its sending and its consumer. The median round. */
  readonly cpuUs: Readonly<Record<Kind, number>>
  /** What a round took more than the round of 'sdk' beside it, and more than that of 'bare'. */
  readonly cost: Readonly<Record<Kind, Quartiles>>
  readonly toBare: Readonly<Record<Kind, Quartiles>>
  readonly spans: number
}

/** Half of the rounds are between `low` and `high`. */
interface Quartiles {
  readonly low: number
  readonly median: number
  readonly high: number
}

function quartilesOf(values: readonly number[]): Quartiles {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (part: number): number => sorted[Math.round((sorted.length - 1) * part)] as number
  return { low: at(0.25), median: at(0.5), high: at(0.75) }
}

async function measure(serverUrl: string | null, operations: number, rounds: number): Promise<Report> {
  const url = serverUrl === null ? null : await createDatabase(serverUrl, `bench_telemetry_${Date.now()}`)
  if (url !== null) await migrate(url)
  const taken: Record<Kind, number[]> = { bare: [], sdk: [], metrics: [], traces: [], both: [] }
  let spans = 0
  const children = new Map(KINDS.map((kind) => [kind, startChild(kind, url, operations)]))
  try {
    for (let round = -WARM_ROUNDS; round < rounds; round++) {
      for (let turn = 0; turn < KINDS.length; turn++) {
        const kind = KINDS[(turn + round + WARM_ROUNDS) % KINDS.length] as Kind
        const ran = await oneRound(children.get(kind) as ChildProcess)
        spans += ran.spans
        if (round >= 0) taken[kind].push(ran.cpuUs / operations)
      }
    }
  } finally {
    for (const child of children.values()) child.kill()
  }
  const of = <T>(figure: (kind: Kind) => T): Record<Kind, T> =>
    Object.fromEntries(KINDS.map((kind) => [kind, figure(kind)])) as Record<Kind, T>
  // Rounds of one turn ran side by side, so other programs on the machine disturbed them alike.
  const more = (kind: Kind, than: Kind): Quartiles =>
    quartilesOf(taken[kind].map((us, round) => us / (taken[than][round] as number) - 1))
  return {
    operations,
    rounds,
    cpuUs: of((kind) => quartilesOf(taken[kind]).median),
    cost: of((kind) => more(kind, 'sdk')),
    toBare: of((kind) => more(kind, 'bare')),
    spans,
  }
}

async function migrate(url: string): Promise<void> {
  const pool = openPool(url)
  await pgStore(pool).schema.migrate()
  await pool.end()
}

/** A process of its own: an application has one kind of telemetry, and the compiler optimizes for that kind. */
function startChild(kind: Kind, url: string | null, operations: number): ChildProcess {
  const args = ['--kind', kind, '--operations', String(operations)]
  return fork(fileURLToPath(import.meta.url), url === null ? args : [...args, '--database', url])
}

interface Ran {
  readonly cpuUs: number
  readonly spans: number
}

async function oneRound(child: ChildProcess): Promise<Ran> {
  const ran = new Promise<Ran>((resolve, reject) => {
    child.once('message', (message) => resolve(message as Ran))
    child.once('exit', (code) => reject(new Error(`a process of the bench ended with ${code}`)))
  })
  child.send('round')
  const told = await ran
  child.removeAllListeners('exit')
  return told
}

/** Runs a round whenever the parent asks for one. */
function serve(kind: Kind, url: string | undefined, operations: number): void {
  const exporter = new CountingExporter()
  const opened = openKind(url === undefined ? null : openPool(url, { max: CALLERS }), kind, exporter)
  process.on('disconnect', () => process.exit())
  process.on('message', () => {
    const spans = exporter.spans
    void runRound(opened, kind, operations).then((cpuUs) => process.send?.({ cpuUs, spans: exporter.spans - spans }))
  })
}

function openKind(pool: ReturnType<typeof openPool> | null, kind: Kind, exporter: SpanExporter) {
  const provider = new BasicTracerProvider({
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(SAMPLED) }),
    spanProcessors: [new BatchSpanProcessor(exporter)],
  })
  const tracer = provider.getTracer('bench')
  const { tracing } = otel(api, { tracer })
  const { observe } = prometheus()
  const once = effectivelyOnce({
    namespace: `bench-${kind}`,
    store: storeOf(pool),
    events,
    guard: 'off',
    sweep: false,
    ...(kind === 'traces' || kind === 'both' ? { tracing } : {}),
    ...(kind === 'metrics' || kind === 'both' ? { observe } : {}),
  })
  const relay = once.relay({ to: inProcessSink(() => {}, { name: 'hook' }) })
  const consumer = once.consumer('bench', { from: once.outbox }, { 'charge.created': async () => {} })
  return { once, relay, consumer, tracer }
}

const contexts = new AsyncLocalStorageContextManager()

async function runRound(
  { once, relay, consumer, tracer }: ReturnType<typeof openKind>,
  kind: Kind,
  operations: number,
): Promise<number> {
  if (kind !== 'bare') api.context.setGlobalContextManager(contexts)
  const before = process.cpuUsage()
  let left = operations
  const operation = async (): Promise<void> => {
    const id = randomUUID()
    await once.run({ scope: 'bench', key: id, input: { amount: 5 } }, async function charge({ publish }) {
      await publish('charge.created', { id, account: id, amount: 5 })
      return { id }
    })
  }
  const request = (): Promise<void> =>
    tracer.startActiveSpan('request', (span) => operation().finally(() => span.end()))
  const caller = async (): Promise<void> => {
    while (left-- > 0) await (kind === 'bare' ? operation() : request())
  }
  await Promise.all(Array.from({ length: CALLERS }, caller))
  await relay.drain()
  await consumer.drain()
  const { user, system } = process.cpuUsage(before)
  api.context.disable()
  return user + system
}

function asText({ operations, rounds, cpuUs, cost, toBare, spans }: Report): string {
  const percent = (part: number): string => `${(100 * part).toFixed(1)} %`
  const text = ({ low, median, high }: Quartiles): string =>
    `${percent(median).padStart(8)} ${`(${percent(low)} … ${percent(high)})`.padEnd(22)}`
  const lines = KINDS.map(
    (kind) => `${kind.padEnd(8)} ${cpuUs[kind].toFixed(0).padStart(6)} us ${text(cost[kind])} ${text(toBare[kind])}`,
  )
  const head = `${rounds} rounds of ${operations} operations, ${spans} spans; CPU time to sdk, to bare: median (quartiles)`
  return [head, ...lines.map((line) => line.trimEnd())].join('\n')
}

process.exitCode = await main()

function storeOf(pool: ReturnType<typeof openPool> | null): Store<unknown> {
  return pool ? pgStore(pool) : memoryStore()
}
