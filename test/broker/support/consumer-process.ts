/** A consumer in a process of its own: consumer-process <feed> <database> <broker's address> <place> <random|inOrder> <flaw> */
import './with-parent.ts'
import { rowAfterEffect } from '../../consumer/flawed-store.ts'
import { INSERT, openWorld } from '../../consumer/world.ts'
import { CONSUMER, sourceOf } from './consumer-feeds.ts'
import { flawed, type PlantedFlaw } from './consumer-flaws.ts'

const [name = '', database = '', url = '', place = '', order = '', given = 'none'] = process.argv.slice(2)
const flaw = given as PlantedFlaw
const world = await openWorld(database, 12, flaw === 'rowAfterEffect' ? rowAfterEffect : undefined, true)
const from = await sourceOf({ name, url, place, inOrder: order === 'inOrder', shared: flaw === 'shared' }, world)
const delivery = flaw === 'noInbox' ? 'at-least-once' : 'once'
const apply = async (
  { id, data }: { id: string; data: { aggregate: string; n: number } },
  { tx, publish }: { tx: { query(text: string, values: unknown[]): Promise<unknown> }; publish: Publish },
): Promise<void> => {
  await tx.query(INSERT, [id, data.aggregate, data.n])
  if (data.n === 10 && data.aggregate.endsWith('0')) await publish('step.seen', { id })
}
type Publish = (type: 'step.seen', data: { id: string }) => Promise<unknown>

const consumer = world.once.consumer(
  CONSUMER,
  {
    from: flawed(from, flaw),
    concurrency: 10,
    batch: 128,
    deadline: '60s',
    pipelined: true,
    horizon: 'warn',
    attempts: 100,
    delivery,
    unknown: { ignore: ['step.seen'] },
  },
  { 'step.made': apply, 'link.made': apply },
)
await consumer.start()
process.stdout.write('ready\n')
