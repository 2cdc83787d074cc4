import { setTimeout as sleep } from 'node:timers/promises'
import { countCost, flushStatistics, withQuietWal, type Cost } from '../../support/costs.ts'
import { meterCpu, perOperation, sumOf, type Cpu } from '../../support/cpu.ts'
import { CALLERS, createDatabase, onServer } from '../../support/database.ts'
import { median, repeat } from '../../support/measure.ts'
import type { BenchServer } from '../../support/server.ts'
import { startWireMeter } from '../../support/wire-meter.ts'
import { openGraphileWorker } from './graphile-worker.ts'
import { openAtomic, openBatched } from './ours.ts'
import { openPgBoss } from './pg-boss.ts'
import { openPgTransactionalOutbox } from './pg-transactional-outbox.ts'
import { RECEIPT_TABLE, type OpenQueue, type Queue } from './queue.ts'

export const QUEUES: Readonly<Record<string, OpenQueue>> = {
  atomic: openAtomic,
  batched: openBatched,
  graphileWorker: openGraphileWorker,
  pgBoss: openPgBoss,
  pgTransactionalOutbox: openPgTransactionalOutbox,
}

export interface FoundQueue {
  /** Events per second, published by many callers at once, and consumed. */
  readonly publishRate: number
  readonly consumeRate: number
  /** Microseconds per event, process plus server. */
  readonly publishCpu: number
  readonly consumeCpu: number
  readonly cost: Cost
}

interface Options {
  readonly rounds: number
  readonly events: number
  progress(text: string): void
}

type Opened = ReadonlyMap<string, Queue>
/** PostgreSQL collects the counters of an idle connection after ten seconds. */
const COLLECTED_MS = 11_000

/** Every queue in a database of its own, all in turn, round after round. */
export async function measureQueues(
  server: BenchServer,
  { rounds, events, progress }: Options,
): Promise<Record<string, FoundQueue | { readonly missing: string }>> {
  const found: Record<string, FoundQueue | { readonly missing: string }> = {}
  const opened = new Map<string, Queue>()
  const urls = new Map<string, string>()
  const databases: string[] = []
  const databaseOf = async (name: string): Promise<string> => {
    const database = `peers_${name.toLowerCase()}`
    databases.push(database)
    const url = await createDatabase(server.url, database)
    await onServer(url, RECEIPT_TABLE)
    return url
  }
  try {
    for (const [name, open] of Object.entries(QUEUES)) {
      try {
        const url = await databaseOf(name)
        urls.set(name, url)
        const queue = await open(url)
        opened.set(name, queue)
        await runOnce(queue, events)
        progress(`${name} is ready`)
      } catch (error) {
        found[name] = { missing: String(error) }
        progress(`${name}: ${String(error)}`)
      }
    }
    const times = await measureRounds(server.url, opened, { rounds, events, progress })
    for (const [name, queue] of opened) {
      await queue.close()
      await requireReceipts(name, urls.get(name) as string)
    }
    for (const [name, all] of times) {
      const url = await databaseOf(`${name}_cost`)
      const cost = await withQuietWal(server, () => count(url, QUEUES[name] as OpenQueue, events))
      progress(`${name} counted`)
      found[name] = { ...all, cost }
    }
    return found
  } finally {
    for (const database of databases) await onServer(server.url, `drop database if exists ${database} with (force)`)
  }
}

/** Only what works is compared: one receipt for each charge. */
async function requireReceipts(name: string, url: string): Promise<void> {
  const { rows } = await onServer(
    url,
    'select (select count(*) from charge) as charges, (select count(*) from receipt) as receipts, (select count(distinct charge) from receipt) as charged',
  )
  const { charges, receipts, charged } = rows[0] as Record<'charges' | 'receipts' | 'charged', string>
  if (charges !== receipts || charges !== charged)
    throw new Error(`${name}: ${charges} charges, ${receipts} receipts of ${charged}`)
}

async function runOnce(queue: Queue, events: number): Promise<void> {
  await repeat({ name: 'publish', callers: CALLERS, operate: queue.publish }, events)
  await queue.consume(events)
}

async function measureRounds(
  serverUrl: string,
  opened: Opened,
  { rounds, events, progress }: Options,
): Promise<Map<string, Omit<FoundQueue, 'cost'>>> {
  const meter = await meterCpu(process.pid, serverUrl)
  const timed = async (work: () => Promise<void>): Promise<{ rate: number; cpu: Cpu }> => {
    const [before, startedAt] = [meter.read(), performance.now()]
    await work()
    const rate = (events * 1000) / (performance.now() - startedAt)
    return { rate, cpu: perOperation(before, meter.read(), events) }
  }
  const samples = new Map([...opened.keys()].map((name) => [name, [] as Omit<FoundQueue, 'cost'>[]]))
  const names = [...opened.keys()]
  for (let round = 0; round < rounds; round++) {
    for (let i = 0; i < names.length; i++) {
      const name = names[(i + round) % names.length] as string
      const queue = opened.get(name) as Queue
      const published = await timed(() => repeat({ name, callers: CALLERS, operate: queue.publish }, events))
      const consumed = await timed(() => queue.consume(events))
      samples.get(name)?.push({
        publishRate: published.rate,
        consumeRate: consumed.rate,
        publishCpu: sumOf(published.cpu),
        consumeCpu: sumOf(consumed.cpu),
      })
    }
    progress(`queues, round ${round + 1} of ${rounds}`)
  }
  const medianOf = (all: Omit<FoundQueue, 'cost'>[], figure: keyof Omit<FoundQueue, 'cost'>): number =>
    median(all.map((one) => one[figure]))
  return new Map(
    [...samples].map(([name, all]) => [
      name,
      {
        publishRate: medianOf(all, 'publishRate'),
        consumeRate: medianOf(all, 'consumeRate'),
        publishCpu: medianOf(all, 'publishCpu'),
        consumeCpu: medianOf(all, 'consumeCpu'),
      },
    ]),
  )
}

/** What publishing and consuming one event asks of PostgreSQL, together. */
async function count(url: string, open: OpenQueue, events: number): Promise<Cost> {
  const meter = await startWireMeter(url)
  const queue = await open(meter.url)
  try {
    return await countCost({
      url,
      meter,
      warmUp: events,
      operations: events,
      repeat: () => runOnce(queue, events),
      async flush() {
        await Promise.all(queue.pools.map(flushStatistics))
        if (queue.hasOwnConnections) await sleep(COLLECTED_MS)
      },
    })
  } finally {
    await queue.close()
    await meter.close()
  }
}
