/** A consumer of the table's queue in a process of its own: consumer-process <database> <flaw> */
import '../broker/support/with-parent.ts'
import { rowAfterEffect } from './flawed-store.ts'
import { tableSource } from './table-source.ts'
import { INSERT, openWorld } from './world.ts'

const [database = '', flaw = 'none'] = process.argv.slice(2)
const world = await openWorld(database, 6, flaw === 'rowAfterEffect' ? rowAfterEffect : undefined)
const from = tableSource(world.pool, { ackFirst: flaw === 'ackFirst' })
const attempts = flaw === 'killer' ? 3 : 100
const consumer = world.once.consumer(
  'effects',
  { from, concurrency: 4, batch: 32, attempts },
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
