import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as pass } from 'node:timers/promises'
import Libsql from 'libsql'
import { programBeside } from '../../../scripts/program.ts'
import { freePort } from '../../../scripts/servers/process.ts'
import { Dice } from '../../programs/dice.ts'
import { LossyProxy } from './proxy.ts'

const LOOK_MS = 20
/** The server is killed so soon after a request has arrived. */
const KILL_MS_MAX = 10
const LATE_MS = 5_000
const DECLINED_EVERY = 50
/** As in buyer.ts: this order and the next one have the same key. */
const RIVALS_AT = 23
/** The least share of the kills that must hit something in flight. */
const MIDWAY_SHARE = 0.5

export interface ClientChaos {
  readonly calls: number
  readonly kills: number
  readonly seed: number
  readonly storage: 'file' | 'sqlite'
  readonly faultShare: number
  readonly withinMs: number
}

export interface ClientChaosResult {
  readonly seconds: number
  readonly serverKills: number
  readonly clientKills: number
  readonly faults: Readonly<Record<string, number>>
  readonly resumed: number
  readonly replayed: number
  /** Kills of the server with requests in flight, and kills of the client with open calls. */
  readonly midway: { readonly server: number; readonly client: number }
  readonly pendingAtRestarts: number
  readonly refusals: number
  /** Calls that ended with `ONCE_MISMATCH`, because another order had their key. */
  readonly typedRefusals: number
  /** Errors of attempts and calls, by their codes. */
  readonly errors: Readonly<Record<string, number>>
  readonly charges: number
  /** Each must be 0. */
  readonly broken: Readonly<Record<string, number>>
}

interface Line {
  readonly order: number
  readonly status?: number
  readonly id?: number
  /** The code of a typed refusal. */
  readonly refused?: string
  readonly replayed: boolean
  readonly resumed: boolean
}

/** Buys each order once, through a lossy proxy, while server and client are killed. Then plain SQL counts the charges. */
export async function clientChaos(run: ClientChaos): Promise<ClientChaosResult> {
  const folder = await mkdtemp(join(tmpdir(), 'client-chaos-'))
  const file = join(folder, 'shop.db')
  const ledger = join(folder, 'ledger.ndjson')
  const dice = new Dice(run.seed)
  const random = (): number => dice.next()
  const port = await freePort()
  const proxy = new LossyProxy(port, run.faultShare, random)
  const began = performance.now()
  const errors = join(folder, 'errors.ndjson')
  const storage = join(folder, 'calls')
  const order = { url: await proxy.open(), ledger, errors, storage, kind: run.storage, calls: run.calls }
  let shop = await started('shop', [file, String(port)], 'listening')
  let buyer = await started('buyer', [JSON.stringify(order)], 'pending')
  const kills = { server: 0, client: 0 }
  const midway = { server: 0, client: 0 }
  let pendingAtRestarts = 0
  try {
    const moments = momentsOf(run, random)
    while (buyer.child.exitCode === null && buyer.child.signalCode === null) {
      if (performance.now() - began > run.withinMs)
        throw new Error(`not ended in ${run.withinMs} ms: ${buyer.lines.at(-1)}`)
      await pass(LOOK_MS * random() * 2)
      const next = moments[0]
      if (!next || linesIn(ledger) < next.after) continue
      moments.shift()
      if (next.what === 'server') {
        await Promise.race([proxy.nextRequest(), pass(LATE_MS)])
        await pass(random() * KILL_MS_MAX)
        midway.server += proxy.inFlight > 0 ? 1 : 0
        await kill(shop.child)
        shop = await started('shop', [file, String(port)], 'listening')
      } else {
        await kill(buyer.child)
        buyer = await started('buyer', [JSON.stringify(order)], 'pending')
        const pending = Number(buyer.lines[0]?.split(' ')[1] ?? 0)
        midway.client += pending > 0 ? 1 : 0
        pendingAtRestarts += pending
      }
      kills[next.what] += 1
    }
    if (buyer.lines.at(-1) !== 'ended') throw new Error(`the client ended with ${buyer.lines.join(' | ')}`)
    const counted = verdictOf(run, ledger, file)
    const codes = tally(readLines<{ code: string }>(errors).map(({ code }) => code))
    return {
      seconds: Math.round((performance.now() - began) / 100) / 10,
      serverKills: kills.server,
      clientKills: kills.client,
      faults: proxy.faults,
      midway,
      pendingAtRestarts,
      ...counted,
      errors: codes,
      broken: {
        ...counted.broken,
        'errors without a type': codes['untyped'] ?? 0,
        'kinds of faults that never happened': proxy.unseen,
        'kills that did not happen': moments.length,
        'kills too few with something in flight':
          Math.max(0, Math.ceil(run.kills * MIDWAY_SHARE) - midway.server) +
          Math.max(0, Math.ceil(run.kills * MIDWAY_SHARE) - midway.client),
      },
    }
  } finally {
    await kill(shop.child)
    await kill(buyer.child)
    proxy.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Kills, in turn, after random numbers of ended calls. */
function momentsOf(
  { calls, kills }: ClientChaos,
  random: () => number,
): { what: 'server' | 'client'; after: number }[] {
  const of = (what: 'server' | 'client') =>
    Array.from({ length: kills }, () => ({ what, after: random() * calls * 0.95 }))
  return [...of('server'), ...of('client')].toSorted((a, b) => a.after - b.after)
}

function linesIn(ledger: string): number {
  return existsSync(ledger) ? readFileSync(ledger, 'latin1').split('\n').length - 1 : 0
}

/** A line that was cut off by a kill does not count. */
function readLines<T>(file: string): T[] {
  const lines: T[] = []
  for (const text of existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []) {
    try {
      lines.push(JSON.parse(text) as T)
    } catch {
      continue
    }
  }
  return lines
}

function tally(names: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const name of names) counts[name] = (counts[name] ?? 0) + 1
  return counts
}

function verdictOf({ calls }: ClientChaos, ledger: string, file: string) {
  const lines = readLines<Line>(ledger)
  const database = new Libsql(file)
  const rows = database.prepare('select id, order_number from charges').all() as { id: number; order_number: number }[]
  database.close()
  const idOf = new Map(rows.map(({ id, order_number }) => [order_number, id]))
  const answered = new Map(lines.map((line) => [line.order, line]))
  const refused = new Set(lines.filter((line) => line.refused !== undefined).map(({ order }) => order))
  const isDeclined = (order: number): boolean => order % DECLINED_EVERY === DECLINED_EVERY - 1
  /** Of two orders with one key, one is charged, and the other refused. */
  const rivalOf = (order: number): number | undefined => {
    const at = (order % DECLINED_EVERY) - RIVALS_AT
    const rival = at === 0 ? order + 1 : at === 1 ? order - 1 : calls
    return rival < calls ? rival : undefined
  }
  const mayBeRefused = (order: number): boolean => {
    const rival = rivalOf(order)
    return rival !== undefined && idOf.has(rival) && !refused.has(rival)
  }
  const isRight = ({ order, status, id, refused: code }: Line): boolean => {
    if (code !== undefined) return mayBeRefused(order) && !idOf.has(order)
    return isDeclined(order) ? status === 402 : status === 201 && id === idOf.get(order)
  }
  const orders = Array.from({ length: calls }, (_, order) => order)
  return {
    resumed: lines.filter(({ resumed }) => resumed).length,
    replayed: lines.filter(({ replayed }) => replayed).length,
    refusals: orders.filter((order) => answered.get(order)?.status === 402).length,
    typedRefusals: refused.size,
    charges: rows.length,
    broken: {
      'orders charged twice': rows.length - idOf.size,
      'orders not charged': orders.filter((order) => !isDeclined(order) && !idOf.has(order) && !refused.has(order))
        .length,
      'declined orders charged': orders.filter((order) => isDeclined(order) && idOf.has(order)).length,
      'calls forgotten': orders.filter((order) => !answered.has(order)).length,
      'answers that are not the stored one': lines.filter((line) => !isRight(line)).length,
    },
  }
}

interface Started {
  readonly child: ChildProcess
  readonly lines: string[]
}

/** Starts a program, and waits for the line that says it is ready. */
export async function started(name: string, args: readonly string[], ready: string): Promise<Started> {
  const program = programBeside(import.meta.url, name)
  const child = spawn(process.execPath, [...program.execArgv, program.file, ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const lines: string[] = []
  await new Promise<void>((resolve, reject) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      lines.push(line)
      if (line.startsWith(ready)) resolve()
    })
    child.once('exit', (code) => reject(new Error(`${name} ended with ${code}`)))
  })
  return { child, lines }
}

export async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  child.kill('SIGKILL')
  await exited
}
