/** Applies the messages it receives: consumer-process <database> <v1|v2> <broker> <its address> <place> */
import { setTimeout as sleep } from 'node:timers/promises'
import { brokerNamed } from '../broker/support/broker.ts'
import { CONSUMER, FIRST, HOLDS_FOR, openOnce, SECOND, type Step } from './catalogue.ts'
import { begin, observe, onCommand, onDeploy } from './child.ts'

const [database = '', version = 'v2', broker = 'none', url = '', place = ''] = process.argv.slice(2)
const events = version === 'v1' ? FIRST : SECOND
const { once, close } = openOnce(database, observe, { events })
/** The id of the event that fails in this process, or 'next' for the next event that arrives. */
let failing: string | undefined

interface Tx {
  query(text: string, values: unknown[]): Promise<unknown>
}

const INSERT = 'insert into effects (event, aggregate, n, who) values ($1, $2, $3, $4)'

async function apply({ id, data }: { id: string; data: Step }, { tx }: { tx: Tx }): Promise<void> {
  if (failing === 'next') failing = id
  await tx.query(INSERT, [id, data.aggregate, data.n, `${version} ${process.pid}`])
  await sleep(1)
  if (failing === id) throw new Error('this one fails for a while')
}

async function source(): Promise<typeof once.outbox> {
  if (broker === 'none') return once.outbox
  const there = await (await brokerNamed(broker)).open({ url, place, make: false })
  if (!there.source) throw new Error(`${broker} has no source`)
  return there.source(events, { holdsFor: HOLDS_FOR }) as typeof once.outbox
}

let stop = async (): Promise<void> => {}
onCommand((command) => (failing = command === 'fail' ? 'next' : undefined))
onDeploy(async () => {
  await stop()
  await close()
})
const handlers = { 'order.moved': apply, ...(version === 'v1' ? {} : { 'note.added': apply }) }
await begin(async () => {
  const consumer = once.consumer(CONSUMER, { from: await source(), horizon: 'warn' }, handlers)
  stop = () => consumer.stop()
  await consumer.start()
})
