import type { Consumer } from '../../consumer/types.ts'
import { outboxOf } from '../../once/resend.ts'
import { wokenBy } from '../../operation/core.ts'
import type { Committed, LeasedOperation, Operation } from '../../operation/types.ts'
import { outboxSource } from '../../source/outbox.ts'
import type { PulledSource } from '../../source/source.ts'
import type { MemoryTx } from '../../store/memory/database/memory-tx.ts'
import { doDeeds } from './deeds.ts'
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
/** How a message runs an operation inside, by the execution that published it. */
const VISITS: readonly (readonly Child['through'][])[] = [['run'], ['run', 'run'], ['join']]
const MENDED_AFTER = 3

/** An outbox hands out events as they were published, the broker only what they say. */
type Given = EventData | { readonly data: EventData }

/** One consumer of a process: the real code, with a handler that fails, dies or goes through as its message says. */
export function consumerOf(world: World, process: SimProcess, settings: ConsumerSettings, reader: Reader): Consumer {
  const { attempts, onFailure, batch, concurrency, pipelined } = settings
  const from = world.settings.table
    ? tableSource(process)
    : world.flaw.source(world.queues[process.service].of(reader).sourceOf(process, settings), process)
  const options = { from, attempts, onFailure, batch, concurrency, pipelined }
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
      await taste(world, process, data, name(data), tx)
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
      await taste(world, process, data, name(data), tx)
    })
  }
  return process.once.consumer(reader.name, { ...options, lease: `${readerLeaseMs}ms` }, knownTo(process, apply))
}

/** An older version has no handler for the type that is new. */
function knownTo<Apply>({ isOld }: SimProcess, apply: Apply): { made: Apply; added?: Apply } {
  return isOld ? { made: apply } : { made: apply, added: apply }
}

/** The service's own outbox, with leases as short as those of its relays: who dies of an event is not waited for. */
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

/** Where operations meet, every message runs the same one inside: alone, twice at once, or joined. */
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
    // What fails inside heals there: the message is not to blame.
    await doDeeds([{ how: 'all', children, catches: true, writes: false }], asker)
  })
}

/** Some take long enough for the same message to come to another process. */
async function dawdle(process: SimProcess, data: EventData): Promise<void> {
  if (data.exec % 3 === 0) await process.sleep(SLOW_MS)
  await process.turn('consume')
}

async function taste(
  world: World,
  process: SimProcess,
  { taste: of, exec }: EventData,
  name: string,
  tx: MemoryTx,
): Promise<void> {
  if (of.is === 'fine') return
  const times = world.tasted(name)
  // Where letters are redriven, somebody mends the handler meanwhile.
  if (world.settings.redrives && (times > MENDED_AFTER || !world.chaos)) return
  if (of.is === 'deadly') {
    process.die()
    return never()
  }
  if (of.is === 'poison' && world.settings.company === 'meets' && exec % 2 === 0) await tx.insert('raising', { exec })
  if (of.is === 'poison') throw new Error('the handler cannot take it')
  if (of.is === 'failing' && times <= of.times) throw new Error('the handler failed')
}
