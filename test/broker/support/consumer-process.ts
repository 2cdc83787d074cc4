/** A consumer in a process of its own: consumer-process <broker> <database> <broker's address> <place> */
import './with-parent.ts'
import { INSERT, events, openWorld } from '../../consumer/world.ts'
import { brokerNamed } from './broker.ts'
import { CONSUMER, HOLDS_FOR } from './consumer-chaos.ts'

const [name = '', database = '', url = '', place = ''] = process.argv.slice(2)
const broker = await brokerNamed(name)
const there = await broker.open({ url, place, make: false })
if (!there.source) throw new Error(`${name} has no source`)
const world = await openWorld(database, 6)
const consumer = world.once.consumer(
  CONSUMER,
  { from: there.source(events, { holdsFor: HOLDS_FOR }), concurrency: 5, batch: 128, horizon: 'warn', attempts: 100 },
  {
    'step.made': async ({ id, data }, { tx }) => {
      await tx.query(INSERT, [id, data.aggregate, data.n])
    },
  },
)
await consumer.start()
process.stdout.write('ready\n')
