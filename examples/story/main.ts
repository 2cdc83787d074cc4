/**
 * `npm start`: a demo in the terminal, on embedded SQLite in a temporary folder, then the playground in the browser.
 * Three requests with one key make one charge. Processes are killed during and after their COMMIT; each retry ends with
 * one charge. An event is delivered twice and makes one receipt. `--story-only` (or STORY_ONLY=1) skips the playground.
 */
import { spawn } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { TwiceBroker } from './broker.ts'
import { hasColour, openPage } from './page.ts'
import { charge, openLedger, openShop, prepare, writeReceipts, type Charge, type Shop } from './shop.ts'

// node:sqlite warns on every start that it is experimental. Only that warning is hidden.
process.removeAllListeners('warning').on('warning', (warning) => {
  if (warning.name !== 'ExperimentalWarning') console.error(String(warning))
})

const unknown = process.argv.slice(2).find((argument) => argument !== '--story-only')
if (unknown !== undefined) {
  console.error(`There is no option ${unknown}. Use: npm start [-- --story-only]`)
  process.exit(2)
}
const storyOnly = process.argv.includes('--story-only') || process.env['STORY_ONLY'] === '1'

const write = (text: string): void => void process.stdout.write(text)
const page = openPage(write, hasColour(process.env, process.stdout.isTTY))
const folder = await mkdtemp(join(tmpdir(), 'effectively-once-story-'))
const file = join(folder, 'shop.db')
await prepare(file)
const ledger = await openLedger(file)
const counts = new Map<string, { charges: number; receipts: number }>()
let requests = 0
let kills = 0
let deliveries = 0

try {
  page.title('effectively-once: one key, one charge, one receipt')
  await threeRequests('order-1001', 500)
  page.chapter('2. A process killed with SIGKILL: in mid-commit, and right after its commit')
  await killedChild('order-1002', 700, 'during')
  await killedChild('order-1003', 900, 'after')
  await deliveredTwice('order-1004', 300)
  process.exitCode = summary()
} finally {
  ledger.close()
  await rm(folder, { recursive: true, force: true })
}
if (process.exitCode === 0 && !storyOnly) {
  // The published package has the story, but not the playground.
  const { showPlayground } = await import('../playground/show.ts')
  await showPlayground(write)
}

async function threeRequests(key: string, amount: number): Promise<void> {
  page.chapter('1. Three requests with one key')
  page.line('key', `${key}, charge ${amount}`)
  const shop = openShop(file)
  // A double click: two requests at once. The second waits for the first.
  const [first, second] = await Promise.all([charge(shop, key, amount), charge(shop, key, amount)])
  await shop.close()
  const restarted = openShop(file)
  const third = await charge(restarted, key, amount)
  await restarted.close()
  tell('first click', first)
  tell('second click', second)
  tell('later retry', third)
  count(key)
}

async function killedChild(key: string, amount: number, moment: 'during' | 'after'): Promise<void> {
  page.line('key', `${key}, charge ${amount}`)
  const { where, signal, answers } = await runAndKill(key, amount, moment)
  page.line('child', where === 'at COMMIT' ? 'charge, record and answer written; COMMIT is next' : 'COMMIT done')
  page.line('parent', `killed it: ${signal}; it answered ${answers === 0 ? 'nobody' : `${answers} times`}`)
  page.line('ledger', `${plural(ledger.charges(key), 'charge')} before the retry`)
  const shop: Shop = openShop(file)
  tell('retry', await charge(shop, key, amount))
  await shop.close()
  count(key)
}

async function deliveredTwice(key: string, amount: number): Promise<void> {
  page.chapter('3. An event delivered twice')
  page.line('key', `${key}, charge ${amount}`)
  const shop = openShop(file)
  tell('request', await charge(shop, key, amount))
  count(key)
  const broker = new TwiceBroker()
  const { runs } = await writeReceipts(shop, broker)
  await shop.close()
  deliveries = [...broker.delivered.values()].reduce((sum, times) => sum + times, 0)
  const events = broker.delivered.size
  page.line('relay', `sent ${plural(events, 'event')}, also those of the processes that were killed`)
  page.line('broker', `made ${plural(deliveries, 'delivery')} of them`)
  page.line(
    'consumer',
    `its handler ran ${plural(
      [...runs.values()].reduce((a, b) => a + b, 0),
      'time',
    )}`,
  )
  if (process.env['STORY_PLANT_RECEIPT'] === key) ledger.plant('receipts', key)
  for (const [of, { charges }] of counts) counts.set(of, { charges, receipts: ledger.receipts(of) })
  const wrong = [...counts].filter(([, { receipts }]) => receipts !== 1)
  if (wrong.length === 0) page.good('receipts', `1 for each of the ${counts.size} keys`)
  for (const [of, { receipts }] of wrong) page.bad('receipts', `${receipts} for ${of}: there must be 1`)
}

/** Starts a process of the shop, waits until it reaches the named moment, and kills it there. */
async function runAndKill(
  key: string,
  amount: number,
  moment: string,
): Promise<{ where: string; signal: string; answers: number }> {
  requests++
  const script = fileURLToPath(new URL(`child${extname(import.meta.url)}`, import.meta.url))
  const child = spawn(process.execPath, [...process.execArgv, script, file, key, String(amount), moment], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_NO_WARNINGS: '1' },
  })
  const said: string[] = []
  for await (const line of createInterface({ input: child.stdout })) {
    said.push(line)
    child.kill('SIGKILL')
  }
  if (child.exitCode === null && child.signalCode === null) await onceEvent(child, 'exit')
  if (child.signalCode !== 'SIGKILL') throw new Error(`the child ended by itself, with exit code ${child.exitCode}`)
  kills++
  return {
    where: said[0] ?? '',
    signal: child.signalCode,
    answers: said.filter((line) => line.startsWith('answered')).length,
  }
}

function tell(caller: string, { got, replay }: { got: Charge; replay: boolean }): void {
  requests++
  page.line(caller, `got charge #${got.id} of ${got.amount}   ${replay ? 'replay, nothing ran' : 'the handler ran'}`)
}

/** Counts by plain SQL through a separate connection, independently of the library. */
function count(key: string): void {
  if (process.env['STORY_PLANT'] === key) ledger.plant('charges', key)
  const charges = ledger.charges(key)
  counts.set(key, { charges, receipts: 0 })
  if (charges === 1) page.good('ledger', '1 charge')
  else page.bad('ledger', `${plural(charges, 'charge')}: there must be 1`)
}

function summary(): number {
  const wrong = [...counts].filter(([, { charges, receipts }]) => charges !== 1 || receipts !== 1)
  page.chapter('Summary')
  page.line('key', 'charges   receipts')
  for (const [key, { charges, receipts }] of counts) page.line(key, `${String(charges).padEnd(10)}${receipts}`)
  page.gap()
  const done = `${counts.size} keys, ${requests} requests, ${kills} kills, ${plural(deliveries, 'delivery')}`
  if (wrong.length === 0) page.good('', `${done}: one charge and one receipt per key.`)
  else page.bad('', `Not one charge and one receipt: ${wrong.map(([key]) => key).join(', ')}`)
  page.gap()
  return wrong.length === 0 ? 0 : 1
}

function plural(n: number, word: string): string {
  if (n === 1) return `1 ${word}`
  return `${n} ${word.endsWith('y') ? `${word.slice(0, -1)}ies` : `${word}s`}`
}
