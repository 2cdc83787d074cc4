/* oxlint-disable typescript/consistent-return -- every kind is handled; the compiler checks that */
import type { Heard } from '../trace.ts'
import type { Call, Exec, History, Own } from './history.ts'
import { recordIdOf, storedMessageOf } from './names.ts'
import type { Seen } from './seen.ts'
import { childrenOf, hostingOf, type Host } from './transactions.ts'

/** How an operation was completed: by the answer of an execution, or by its refusal. */
export interface Completion {
  readonly call: Call
  readonly exec: Exec
  readonly refused: boolean
  /** What every caller hears from then on. */
  readonly answer: Heard
}

type Will = 'yes' | 'no' | 'perhaps'

/**
 * Which executions must be in the database, by what their callers heard. Where nobody heard (the process died) or it is
 * not sure in whose transaction it was, the database decides: all of it, or nothing of it.
 */
export class Fates {
  readonly #history: History
  readonly #rows: ReadonlySet<string>
  readonly #applied: ReadonlySet<string>
  readonly #answers: ReadonlySet<number>
  /** Refusals that are stored, by their key and who made them. */
  readonly #refusals: ReadonlySet<string>
  readonly #name: string
  readonly #wills = new Map<Host, Will>()
  readonly #alive = new Map<Host, boolean>()

  constructor(history: History, seen: Seen, name: string) {
    this.#history = history
    this.#rows = new Set([...seen.rows, ...seen.events])
    this.#applied = new Set(seen.applied)
    this.#name = name
    this.#answers = new Set(seen.records.flatMap(({ answer }) => byOf(answer?.body ?? null) ?? []))
    const refused = seen.records.filter(({ answer }) => answer !== null && answer.status >= 400)
    this.#refusals = new Set(refused.map(({ id, answer }) => `${id} ${byOf(answer?.body ?? null)}`))
  }

  /** Its rows and events are committed. */
  alive(host: Host): boolean {
    const known = this.#alive.get(host)
    if (known !== undefined) return known
    const alive = this.#decide(host)
    this.#alive.set(host, alive)
    return alive
  }

  /** The record of this completion is committed. */
  kept({ call, exec, refused, answer }: Completion): boolean {
    if (!refused) return this.alive(exec)
    const hosting = hostingOf(call)
    if (hosting.kind === 'in') return this.alive(hosting.host)
    const will = call.heard === null ? 'perhaps' : this.#willAround(call)
    if (will !== 'perhaps') return will === 'yes'
    return this.#refusals.has(`${recordIdOf(call.key, this.#name)} ${refuserOf(answer)}`)
  }

  /** Nobody heard how it ended. */
  unheard(host: Host): boolean {
    return this.#will(host) === 'perhaps'
  }

  #decide(host: Host): boolean {
    const will = this.#will(host)
    if (will !== 'perhaps') return will === 'yes'
    if (host.is === 'exec' && host.kind === 'message') return this.#isApplied(host)
    if (host.is === 'exec' && host.heard !== null && 'error' in host.heard) return false
    // Its answer may be stored, and is a refusal.
    if (host.is === 'exec' && host.call?.refuses) return false
    // Nested in a transaction whose own end nobody heard: with it, or not at all.
    const hosting = host.is === 'exec' && host.call && isOwnAnswer(host) ? hostingOf(host.call) : null
    if (hosting?.kind === 'in') return this.alive(hosting.host)
    return this.#evident(host)
  }

  /** Of the executions of one message, the last that returned is the one that committed. */
  #isApplied(exec: Exec): boolean {
    const { message } = exec
    if (!message) return false
    const stored = storedMessageOf(this.#history, this.#name, message.drain.consumer, message.id)
    if (!this.#applied.has(stored)) return false
    const twins = this.#history.execs.filter(
      (other) =>
        other.message?.id === message.id &&
        other.message.drain.consumer === message.drain.consumer &&
        other.heard !== null &&
        'value' in other.heard,
    )
    return twins.at(-1) === exec
  }

  #evident(host: Host): boolean {
    if ([...host.writes, ...host.publishes].some(({ id }) => this.#rows.has(`${this.#name}.${id}`))) return true
    if (host.is === 'exec' && this.#answers.has(host.id)) return true
    return childrenOf(host).some((call) => call.execs.some((exec) => isOwnAnswer(exec) && this.#evident(exec)))
  }

  #will(host: Host): Will {
    const known = this.#wills.get(host)
    if (known !== undefined) return known
    const will = host.is === 'own' ? ownWill(host) : this.#execWill(host)
    this.#wills.set(host, will)
    return will
  }

  #execWill(exec: Exec): Will {
    const { kind, call, outcome } = exec
    if (kind === 'message') return 'perhaps'
    if (kind === 'leased') return 'no'
    if (kind === 'commit' || kind === 'step.tx') {
      if (outcome === null) return this.#history.killedAt === null ? 'no' : 'perhaps'
      return 'value' in outcome ? 'yes' : 'no'
    }
    if (!call) return 'no'
    if (call.heard === null) return this.#history.killedAt === null ? 'no' : 'perhaps'
    return isOwnAnswer(exec) ? this.#willAround(call) : 'no'
  }

  /** What becomes of a nested operation that is done, by the transaction it is in. */
  #willAround(call: Call): Will {
    const hosting = hostingOf(call)
    switch (hosting.kind) {
      case 'none':
        return 'yes'
      case 'in':
        return this.#will(hosting.host)
      case 'closed':
        return 'no'
      case 'loose':
        return hosting.hosts.every((host) => this.#will(host) === 'yes') ? 'yes' : 'perhaps'
    }
  }
}

function ownWill({ heard }: Own): Will {
  if (heard === null) return 'perhaps'
  return 'value' in heard ? 'yes' : 'no'
}

/** The caller got this execution's own answer. */
export function isOwnAnswer(exec: Exec): boolean {
  const heard = exec.call?.heard
  return heard !== undefined && heard !== null && 'value' in heard && heard.value === exec.id
}

/** Every way in which a call completed its key by itself, or, where nobody heard, may have. */
export function completionsOf(call: Call): Completion[] {
  return call.execs.flatMap((exec): Completion[] => {
    if (exec.kind === 'step.tx') return []
    const heard = call.heard ?? exec.heard
    const done: Completion = { call, exec, refused: false, answer: { value: exec.id } }
    if (call.heard === null && call.refuses)
      return [{ call, exec, refused: true, answer: { error: { kind: 'final', by: exec.id } } }]
    if (call.heard === null && exec.kind !== 'leased' && !isRefusal(exec.heard)) return [done]
    if (heard === null) return []
    if ('value' in heard) return heard.value === exec.id && exec.kind !== 'leased' ? [done] : []
    // A refusal that came from inside is the operation's own too.
    const said = exec.kind === 'batched' ? exec.id : refuserOf(exec.heard)
    const own = exec.kind !== 'commit' && said !== null && said === refuserOf(heard)
    return isRefusal(heard) && own ? [{ call, exec, refused: true, answer: heard }] : []
  })
}

function refuserOf(heard: Heard | null): number | null {
  return heard !== null && 'error' in heard && heard.error.kind === 'final' ? heard.error.by : null
}

function isRefusal(heard: Heard | null): boolean {
  return heard !== null && 'error' in heard && heard.error.kind === 'final'
}

export function byOf(body: string | null): number | null {
  if (body === null) return null
  try {
    const by = (JSON.parse(body) as { by?: unknown } | null)?.by
    return typeof by === 'number' ? by : null
  } catch {
    return null
  }
}
