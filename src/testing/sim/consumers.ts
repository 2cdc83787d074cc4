import type { Consumer } from '../../once/consumer-types.ts'
import { nameOf } from './outbox-plan.ts'
import type { ConsumerSettings, EventData } from './outbox-plan.ts'
import type { SimProcess } from './process.ts'
import { tagOf } from './readers.ts'
import type { Reader } from './readers.ts'
import { never } from './wire.ts'
import type { World } from './world.ts'

const SLOW_MS = 30
const MENDED_AFTER = 3

/** One consumer of a process: the real code, with a handler that fails, dies or goes through as its message says. */
export function consumerOf(world: World, process: SimProcess, settings: ConsumerSettings, reader: Reader): Consumer {
  const { attempts, onFailure, batch, concurrency, pipelined } = settings
  const from = world.flaw.source(world.queue.of(reader).sourceOf(process, settings), process)
  const options = { from, attempts, onFailure, batch, concurrency, pipelined }
  const { readerLeaseMs } = world.settings
  const name = (data: EventData): string => tagOf(reader.name, nameOf(data))
  if (readerLeaseMs === null) {
    return process.once.consumer(reader.name, options, {
      made: async (data, { tx }) => {
        await tx.insert('applied', { event: name(data) })
        await dawdle(process, data)
        await taste(world, process, data, name(data))
      },
    })
  }
  return process.once.consumer(
    reader.name,
    { ...options, lease: `${readerLeaseMs}ms` },
    {
      made: async (data, { step, commit }) => {
        await step('call', () => dawdle(process, data), { keyed: true })
        return commit(async ({ tx }) => {
          await tx.insert('applied', { event: name(data) })
          await taste(world, process, data, name(data))
        })
      },
    },
  )
}

/** Some take long enough for the same message to come to another process. */
async function dawdle(process: SimProcess, data: EventData): Promise<void> {
  if (data.exec % 3 === 0) await process.sleep(SLOW_MS)
  await process.turn('consume')
}

async function taste(world: World, process: SimProcess, { taste: of }: EventData, name: string): Promise<void> {
  if (of.is === 'fine') return
  const times = world.tasted(name)
  // Where letters are redriven, somebody mends the handler meanwhile.
  if (world.settings.redrives && (times > MENDED_AFTER || !world.chaos)) return
  if (of.is === 'deadly') {
    process.die()
    return never()
  }
  if (of.is === 'poison') throw new Error('the handler cannot take it')
  if (of.is === 'failing' && times <= of.times) throw new Error('the handler failed')
}
