import type { Consumer } from '../../consumer/types.ts'
import { outboxOf } from '../../once/resend.ts'
import { wokenBy } from '../../operation/core.ts'
import type { Committed, LeasedOperation, Operation } from '../../operation/types.ts'
import { outboxSource } from '../../source/outbox.ts'
import type { PulledSource } from '../../source/source.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import { runNestedCalls } from './nested-calls.ts'
import { ALWAYS, askerOf } from './handlers.ts'
import { VISITED } from './meeting.ts'
import type { Child } from './meeting.ts'
import { nameOf } from './outbox-plan.ts'
import type { ConsumerSettings, EventData, SimEvents } from './outbox-plan.ts'
import type { SimProcess } from './process.ts'
import type { SimHandles } from './queue.ts'
import { tagOf } from './readers.ts'
import type { Reader } from './readers.ts'
import { never } from './wire.ts'
import type { World } from './world.ts'

const SLOW_MS = 30
/** How a message runs an inner operation, chosen by the execution that published the message. */
const VISITS: readonly (readonly Child['through'][])[] = [['run'], ['run', 'run'], ['join']]
const MENDED_AFTER = 3

/** The outbox source delivers whole events; the broker delivers only their data. */
type Given = EventData | { readonly data: EventData }

/** One consumer of a process: the real code, with a handler that fails, dies or succeeds as its message says. */
export function consumerOf(world: World, process: SimProcess, settings: ConsumerSettings, reader: Reader): Consumer {
  const { attempts, onFailure, batch, concurrency, pipelined, rate } = settings
  const from = world.settings.table
    ? tableSource(process)
    : world.flaw.source(world.queues[process.service].of(reader).sourceOf(process, settings), process)
  const limits = rate === null ? {} : { rate }
  const options = { from, attempts, onFailure, batch, concurrency, pipelined, ...limits }
  const { readerLeaseMs } = world.settings
  const name = (data: EventData): string => {
    const tag = tagOf(reader.name, nameOf(data))
    if (data.service !== process.service)
      world.note({ kind: 'strayed', event: tag, how: 'applied', process: process.name })
    return tag
  }
  if (readerLeaseMs === null) {
    const apply = async (given: Given, { tx, signal }: Operation<MemoryTx, SimEvents>): Promise<void> => {
      const data = dataOf(given)
      await tx.insert('applied', { event: name(data) })
      await dawdle(process, data)
      await visit(world, process, data, tx, signal)
      await failAsPlanned(world, process, data, name(data), tx)
    }
    return process.once.consumer(reader.name, options, knownTo(process, apply))
  }
  const apply = async (
    given: Given,
    { step, commit }: LeasedOperation<MemoryTx, SimEvents>,
  ): Promise<Committed<void>> => {
    const data = dataOf(given)
    await step('call', () => dawdle(process, data), { keyed: true })
    return commit(async ({ tx, signal }) => {
      await tx.insert('applied', { event: name(data) })
      await visit(world, process, data, tx, signal)
      await failAsPlanned(world, process, data, name(data), tx)
    })
  }
  return process.once.consumer(reader.name, { ...options, lease: `${readerLeaseMs}ms` }, knownTo(process, apply))
}

/** An older version has no handler for the new event type. */
function knownTo<Apply>({ isOld }: SimProcess, apply: Apply): { made: Apply; added?: Apply } {
  return isOld ? { made: apply } : { made: apply, added: apply }
}

/**
 * The service's own outbox as a source. Its leases are as short as those of the relays, so that a process killed by an
 * event is replaced soon.
 */
function tableSource(process: SimProcess): PulledSource<SimHandles> {
  const { clock, settings, relays } = process.once.core
  const source = outboxSource<SimEvents>({
    outbox: outboxOf(process.once.core),
    clock,
    observe: settings.observe,
    source: settings.namespace,
    leaseMs: process.world.settings.relay?.leaseMs ?? 0,
    keptForMs: settings.resendForMs,
    onPublished(wake) {
      const woken = wokenBy(wake)
      relays.add(woken)
      return () => relays.delete(woken)
    },
  })
  return source as unknown as PulledSource<SimHandles>
}

function dataOf(given: Given): EventData {
  return 'data' in given ? given.data : given
}

/** In worlds where operations meet, every message runs the same inner operation: alone, twice at once, or joined. */
async function visit(
  world: World,
  process: SimProcess,
  data: EventData,
  tx: MemoryTx,
  signal: AbortSignal,
): Promise<void> {
  if (world.settings.company !== 'meets') return
  const children: readonly Child[] = VISITS[data.exec % VISITS.length]!.map((through) => ({ key: VISITED, through }))
  const exec = world.executions.next()
  await world.executions.watch(exec, async () => {
    await tx.insert('own', { exec, part: 'own' })
    const asker = askerOf({ world, process, input: 1, call: -exec, isOpen: ALWAYS }, exec, tx, signal)
    // A failure inside is rolled back to its savepoint, so the message does not fail because of it.
    await runNestedCalls([{ how: 'all', children, catches: true, writes: false }], asker)
  })
}

/** Some handlers take long enough for the broker to deliver the same message to another process. */
async function dawdle(process: SimProcess, data: EventData): Promise<void> {
  if (data.exec % 3 === 0) await process.sleep(SLOW_MS)
  await process.turn('consume')
}

async function failAsPlanned(
  world: World,
  process: SimProcess,
  { taste: of, exec }: EventData,
  name: string,
  tx: MemoryTx,
): Promise<void> {
  if (of.is === 'fine') return
  const times = world.countTry(name)
  // In worlds with redrives, the handler is fixed after a few attempts.
  if (world.settings.redrives && (times > MENDED_AFTER || !world.chaos)) return
  if (of.is === 'deadly') {
    process.die()
    return never()
  }
  if (of.is === 'poison' && world.settings.company === 'meets' && exec % 2 === 0) await tx.insert('raising', { exec })
  if (of.is === 'poison') throw new Error('the handler cannot take it')
  if (of.is === 'failing' && times <= of.times) throw new Error('the handler failed')
}
