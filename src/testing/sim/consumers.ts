import type { Consumer } from '../../once/consumer-types.ts'
import { nameOf } from './outbox-plan.ts'
import type { ConsumerSettings, EventData } from './outbox-plan.ts'
import type { SimProcess } from './process.ts'
import { never } from './wire.ts'
import type { World } from './world.ts'

export const CONSUMER = 'reader'
const SLOW_MS = 30

/** The consumer of one process: the real code, with a handler that fails, dies or goes through as its message says. */
export function consumerOf(world: World, process: SimProcess, settings: ConsumerSettings): Consumer {
  const { attempts, onFailure, batch, concurrency, pipelined } = settings
  const from = world.flaw.source(world.queue.sourceOf(process, settings), process)
  return process.once.consumer(
    CONSUMER,
    { from, attempts, onFailure, batch, concurrency, pipelined },
    {
      made: async (data, { tx }) => {
        const name = nameOf(data)
        await tx.insert('applied', { event: name })
        // Some take long enough for the same message to come to another process.
        if (data.exec % 3 === 0) await process.sleep(SLOW_MS)
        await process.turn('consume')
        await taste(world, process, data, name)
      },
    },
  )
}

async function taste(world: World, process: SimProcess, { taste: of }: EventData, name: string): Promise<void> {
  if (of.is === 'deadly') {
    process.die()
    return never()
  }
  if (of.is === 'poison') throw new Error('the handler cannot take it')
  if (of.is === 'failing' && world.tasted(name) <= of.times) throw new Error('the handler failed')
}
