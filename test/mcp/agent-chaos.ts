import { spawn } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { Journal } from '../../examples/08-agent/journal.ts'
import { programBeside } from '../../scripts/program.ts'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { Dice } from '../programs/dice.ts'

export interface AgentChaos {
  /** How often the agent is killed. Its tool server is killed as often. */
  readonly kills: number
  readonly seed: number
  /** One run of the agent may take this long. */
  readonly timeoutMs: number
}

export interface AgentChaosResult {
  readonly agentKills: number
  readonly toolServerKills: number
  /** Requests that reached the provider: one for each kill inside the step, and the last. */
  readonly asked: number
  /** Payments that the provider made. */
  readonly charges: number
  /** Rows in the database of the tools. */
  readonly rows: number
  readonly answers: readonly string[]
  /** The answer names the payment that the provider made. */
  readonly answered: boolean
}

const { file: AGENT, execArgv: LOADER } = programBeside(import.meta.url, '../../examples/08-agent/agent')

/** Who is killed, and when. `agent-inside`: when the provider has charged, but has not answered yet. */
type Kill = 'before-commit' | 'agent-inside' | 'after-commit' | 'agent'
const INSIDE: readonly Kill[] = ['before-commit', 'agent-inside']
const LATER: readonly Kill[] = ['after-commit', 'agent']
const ofAgent = (kill: Kill): boolean => kill === 'agent' || kill === 'agent-inside'

/**
 * One charge by an agent whose processes are killed between "charge" and "answer": agent or tool server inside the
 * step, the tool server after its commit, and the agent before it has recorded the answer.
 */
export async function agentChaos({ kills, seed, timeoutMs }: AgentChaos): Promise<AgentChaosResult> {
  const folder = await mkdtemp(join(tmpdir(), 'effectively-once-agent-'))
  const provider = new Provider()
  try {
    const url = await provider.listen()
    const plan = planOf(kills, seed)
    let agentKills = 0
    for (;;) {
      const { code, signal } = await runAgent([folder, url], plan, provider, timeoutMs)
      if (code === 0) break
      const hit = plan.findIndex(ofAgent)
      if (signal !== 'SIGKILL' || hit === -1) throw new Error(`the agent ended with ${code ?? signal}`)
      agentKills += 1
      plan.splice(0, hit + 1)
    }
    const journal = new Journal(join(folder, 'journal.ndjson'))
    const answers = [...journal.answers.values()]
    const rows = await countRows(join(folder, 'agent.db'))
    const payments = [...provider.payments.values()]
    const answered = answers.length === 1 && answers[0] === `Charged 500 cents for order-1: payment ${payments[0]}.`
    const { asked } = provider
    return { agentKills, toolServerKills: journal.failures, asked, charges: payments.length, rows, answers, answered }
  } finally {
    provider.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/**
 * As many kills of the agent as of the tool server. First those inside the step, because a committed call runs no step.
 * Then the two others. Each half is in random order.
 */
function planOf(kills: number, seed: number): Kill[] {
  const dice = new Dice(seed)
  const half = (kinds: readonly Kill[], each: number): Kill[] =>
    kinds
      .flatMap((kind) => Array.from({ length: each }, () => ({ kind, at: dice.next() })))
      .toSorted((a, b) => a.at - b.at)
      .map(({ kind }) => kind)
  return [...half(INSIDE, Math.ceil(kills / 2)), ...half(LATER, Math.floor(kills / 2))]
}

async function runAgent(
  args: readonly string[],
  plan: readonly Kill[],
  provider: Provider,
  timeoutMs: number,
): Promise<{ code: number | null; signal: string | null }> {
  // Each kill inside the step comes after one request, so the requests count the kills.
  const last = provider.asked + plan.indexOf('agent-inside') + 1
  provider.onCharge = () => {
    if (provider.asked !== last) return true
    child.kill('SIGKILL')
    return false
  }
  const child = spawn(process.execPath, [...LOADER, AGENT, ...args], {
    env: { ...process.env, NODE_NO_WARNINGS: '1', CRASHES: plan.join(',') },
    stdio: ['ignore', 'ignore', 'pipe'],
  })
  const late = setTimeout(() => child.kill('SIGTERM'), timeoutMs)
  const [said] = await Promise.all([text(child.stderr), onceEvent(child, 'exit')])
  clearTimeout(late)
  const { exitCode: code, signalCode: signal } = child
  if (code !== 0 && signal !== 'SIGKILL') console.error(said)
  return { code, signal }
}

async function countRows(file: string): Promise<number> {
  const store = sqliteStore({ file })
  try {
    const { rows } = await store.transaction((tx) => tx.query<{ n: number }>('select count(*) as n from charges'))
    return rows[0]?.n ?? 0
  } finally {
    await store.close()
  }
}

/** A payment provider that honours keys. */
class Provider {
  readonly payments = new Map<string, string>()
  asked = 0
  /** Called after each charge. False: the request gets no answer. */
  onCharge: () => boolean = () => true
  readonly #server: Server = createServer((req, res) => {
    this.asked += 1
    const key = String(req.headers['idempotency-key'])
    const id = this.payments.get(key) ?? `p-${this.payments.size + 1}`
    this.payments.set(key, id)
    req.resume().on('end', () => this.onCharge() && res.end(JSON.stringify({ id })))
  })

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await onceEvent(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}
