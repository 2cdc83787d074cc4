/** Moves orders, one operation each: producer-process <database> <name> */
import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { openOnce } from './catalogue.ts'
import { begin, observe, onCommand, onDeploy, progressed, troubled } from './child.ts'

const LOOPS = 4
const PAUSE_MS = 220
const ORDERS = 60
const NOTES = 8
const NOTE_SHARE = 0.08

const [database = '', name = ''] = process.argv.slice(2)
const { once, close, pool } = openOnce(database, observe)
const life = randomUUID()
const stop = new AbortController()
let made = 0

const NEXT = `insert into aggregate values ($1, 1) on conflict (id) do update set n = aggregate.n + 1 returning n`

async function move(key: string): Promise<void> {
  const isNote = Math.random() < NOTE_SHARE
  const type = isNote ? 'note.added' : 'order.moved'
  const aggregate = isNote ? `note-${pick(NOTES)}` : `order-${pick(ORDERS)}`
  const operation = { scope: name, key, input: { aggregate }, inFlight: { waitFor: '2s' } } as const
  // The outcome of an attempt may be unknown, so the retry uses the same key.
  for (let attempt = 0; !stop.signal.aborted; attempt++) {
    try {
      await once.run(operation, async ({ tx, publish }) => {
        const { rows } = await tx.query<{ n: number }>(NEXT, [aggregate])
        const n = rows[0]?.n ?? 0
        const event = await publish(type, { aggregate, n })
        const values = [key, event, type, aggregate, n]
        await tx.query('insert into orders (key, event, type, aggregate, n) values ($1, $2, $3, $4, $5)', values)
      })
      return progressed(1)
    } catch (error) {
      troubled('publish', error)
      await sleep(100 + Math.random() * Math.min(1_000, 200 * (attempt + 1)))
    }
  }
}

const loops = Array.from({ length: LOOPS }, async () => {
  await begin(() => pool.query('select 1'))
  while (!stop.signal.aborted) {
    await move(`${life}-${made++}`)
    await sleep(Math.random() * 2 * PAUSE_MS)
  }
})
onCommand(() => {})
onDeploy(async () => {
  stop.abort()
  await Promise.all(loops)
  await close()
})

function pick(count: number): number {
  return Math.floor(Math.random() * count)
}
