/** A consumer of the table's queue in a process of its own, which some messages end: consumer-process <database> */
import '../broker/support/with-parent.ts'
import { tableSource } from './table-source.ts'
import { INSERT, openWorld } from './world.ts'

const [database = ''] = process.argv.slice(2)
const world = await openWorld(database, 6)
const from = tableSource(world.pool)
const consumer = world.once.consumer(
  'effects',
  { from, concurrency: 4, batch: 32, attempts: 3 },
  {
    'step.made': async ({ id, data }, { tx, publish }) => {
      if (data.aggregate === 'killer') process.kill(process.pid, 'SIGKILL')
      await tx.query(INSERT, [id, data.aggregate, data.n])
      if (data.n % 10 === 0) await publish('step.seen', { id })
    },
  },
)
await consumer.start()
process.stdout.write('ready\n')
