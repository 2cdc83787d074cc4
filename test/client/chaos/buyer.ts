/**
 * A process that buys every order of a range once, and is killed again and again: `buyer.ts <json>`. For each ended
 * call it appends one line to its ledger, and one line to `errors` for each error. After a restart it ends the pending calls first, and then the orders without
 * a line. It prints `ended` when every order has a line and nothing is pending.
 */
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import Libsql from 'libsql'
import { idempotentClient, isCallError, type CallResponse } from '../../../src/entry/client.ts'
import { fileStorage, sqliteStorage } from '../../../src/entry/client-node.ts'

interface Order {
  readonly url: string
  readonly ledger: string
  readonly errors: string
  readonly storage: string
  readonly kind: 'file' | 'sqlite'
  readonly calls: number
}

const order = JSON.parse(process.argv[2] ?? '') as Order
const AT_ONCE = 16

const client = idempotentClient({
  storage: order.kind === 'file' ? fileStorage({ folder: order.storage }) : sqliteStorage(new Libsql(order.storage)),
  retry: { attempts: 6, base: '20ms', max: '500ms', budget: 1_000_000 },
  timeout: '2s',
  deadline: '20s',
  breaker: { failures: 50, rest: '100ms' },
})

const line = (number: number, what: object): void =>
  appendFileSync(order.ledger, `${JSON.stringify({ order: number, ...what })}\n`)

async function write(name: string, response: CallResponse, resumed: boolean): Promise<void> {
  const body = (await response.json()) as { id?: number }
  line(Number(name.slice('order '.length)), {
    status: response.status,
    id: body.id,
    replayed: response.replayed,
    resumed,
  })
}

const STORAGE_TRIES = 20

/** Two orders with the same key: the server runs one of them, and refuses the other. */
const RIVALS_EVERY = 50
const RIVALS_AT = 23
function keyOf(number: number): { key?: string } {
  const at = (number % RIVALS_EVERY) - RIVALS_AT
  return at === 0 || at === 1 ? { key: `rivals-${number - at}` } : {}
}

/** A typed refusal is the end of the call. After any other typed error it is still pending. */
async function failed(name: string, error: unknown): Promise<void> {
  const code = isCallError(error) ? error.code : 'untyped'
  appendFileSync(order.errors, `${JSON.stringify({ name, code, error: String(error) })}\n`)
  if (code === 'ONCE_MISMATCH') line(Number(name.slice('order '.length)), { refused: code })
}

/** A disk that is busy may take longer than the client waits. That is a typed error, and a buyer tries again. */
async function stored<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work()
    } catch (error) {
      if (tries === STORAGE_TRIES || !isCallError(error, 'ONCE_STORAGE_FAILED')) throw error
      await failed('the storage', error)
    }
  }
}

async function resume(): Promise<void> {
  for (const { name, response, error } of await stored(() => client.resume())) {
    if (response) await write(name, response, true)
    else await failed(name, error)
  }
}

async function buy(number: number): Promise<void> {
  const name = `order ${number}`
  const headers = { 'content-type': 'application/json' }
  const init = { method: 'POST', headers, body: JSON.stringify({ order: number }) }
  try {
    await write(name, await client.fetch(`${order.url}/charges`, init, { name, ...keyOf(number) }), false)
  } catch (error) {
    await failed(name, error)
  }
}

/** A line that was cut off by a kill does not count. */
function ended(): Set<number> {
  const text = existsSync(order.ledger) ? readFileSync(order.ledger, 'utf8') : ''
  const numbers = new Set<number>()
  for (const each of text.split('\n')) {
    try {
      numbers.add((JSON.parse(each) as { order: number }).order)
    } catch {
      continue
    }
  }
  return numbers
}

if (existsSync(order.ledger)) appendFileSync(order.ledger, '\n')
const pending = await stored(() => client.pending())
console.log(`pending ${pending.length}`)
for (let round = 0; round < 100; round++) {
  await resume()
  const done = ended()
  const left = Array.from({ length: order.calls }, (_, number) => number).filter((number) => !done.has(number))
  const open = (await stored(() => client.pending())).filter(({ stopped }) => stopped === undefined)
  if (left.length === 0 && open.length === 0) break
  const next = async (): Promise<void> => {
    for (let number = left.shift(); number !== undefined; number = left.shift()) await buy(number)
  }
  await Promise.all(Array.from({ length: AT_ONCE }, next))
}
console.log('ended')
