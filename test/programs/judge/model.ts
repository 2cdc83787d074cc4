/* oxlint-disable typescript/consistent-return -- every kind is handled; the compiler checks that */
import type { Heard } from '../trace.ts'
import { completionsOf, type Completion, type Fates } from './fates.ts'
import {
  heardAfter,
  isAborted,
  isAbortedBeside,
  isAmong,
  isOnce,
  isTainted,
  once,
  saysAborted,
  type Dialect,
} from './failures.ts'
import type { Call, Exec, History } from './history.ts'
import { hostingOf, operationsAround, pathOf, releasedAt } from './transactions.ts'

const IN_FLIGHT = once('ONCE_IN_FLIGHT')
const MISMATCH = once('ONCE_MISMATCH')
const NESTED_LEASE = once('ONCE_NESTED_LEASE')
const UNKNOWN = once('ONCE_OUTCOME_UNKNOWN')
const CONFLICT = once('ONCE_CONFLICT')
const CLOSED = [once('ONCE_TX_CLOSED'), once('ONCE_TX_REQUIRED')]

/** The reference model: what a caller may hear, by the rules alone. It knows nothing of how the library works. */
export class Model {
  readonly #history: History
  readonly #fates: Fates
  readonly #dialect: Dialect

  constructor(history: History, fates: Fates, dialect: Dialect) {
    this.#history = history
    this.#fates = fates
    this.#dialect = dialect
  }

  /** What is wrong with what a caller heard; null: nothing. */
  wrong(call: Call): string | null {
    const { heard } = call
    if (heard === null) return null
    const refusal = this.#refusedUnseen(call)
    if (refusal) {
      if (hasRun(call) && refusal.sure) return 'ran although it may not'
      if (isAmong(heard, refusal.heard) || (refusal.aborted && saysAborted(heard))) return null
      if (refusal.sure) return `should have been refused with ${refusal.heard.map(inWords).join(' or ')}`
    }
    const before = this.#keptBefore(call)
    const done = before.find((completion) => !this.#mayBeAnothers(completion))
    const expectedOf = ({ call: first, answer }: Completion): Heard => (first.input === call.input ? answer : MISMATCH)
    if (!done && !hasRun(call) && isAmong(heard, before.map(expectedOf))) return null
    if (done) {
      if (hasRun(call)) return 'ran again although its key was done'
      const expected = expectedOf(done)
      if (isAmong(heard, [expected])) return null
      // Its own instance has run the key as well, in vain, and is about to find out that somebody else was quicker.
      const running = this.#beside(call).some((other) => other.via === call.via && other.at < call.at && hasRun(other))
      return running && isOnce(heard, 'ONCE_IN_FLIGHT') ? null : `should have heard ${inWords(expected)}`
    }
    const attempted = this.#attemptedBefore(call)
    if (attempted) {
      if (isAmong(heard, attempted) && !hasRun(call)) return null
      // Whoever is at work on it meanwhile, or only looks at it, may let it be seen running, or done.
      const meanwhile = attempted[0] === UNKNOWN && call.mode !== 'leased' && this.#beside(call).length > 0
      if (!meanwhile || hasRun(call)) return `should have heard ${inWords(attempted[0])}`
    }
    return this.#wrongWhenOpen(call, heard)
  }

  /** The key was free, or others were at work on it at the same time. */
  #wrongWhenOpen(call: Call, heard: Heard): string | null {
    const others = this.#beside(call)
    const replays = others
      .filter(({ input }) => input === call.input)
      .flatMap(completionsOf)
      .map(({ answer }) => answer)
    if (isAmong(heard, replays)) return null
    // It was let go meanwhile, and is for a leased handler to take over.
    const loose = call.mode === 'batched' && hostingOf(call).kind === 'loose' && this.#leasedBefore(call).length > 0
    const left = call.mode !== 'leased' && !hasRun(call) && (loose || others.some(hasLease))
    if (left && isAmong(heard, [UNKNOWN])) return null
    const exec = lastOf(call)
    if (exec) {
      const allowed = heardAfter(exec, this.#history.program, this.#dialect)
      if (isAmong(heard, allowed)) return null
      // What the record says counts, not what this execution would have said.
      if (others.length > 0 && isAmong(heard, [IN_FLIGHT, MISMATCH, CONFLICT])) return null
      // In the user's own transaction its events take their locks at once, in no order that everybody keeps.
      if (isAmong(heard, [CONFLICT]) && isInOwn(call) && publishesInside(call)) return null
      return `should have heard ${allowed.map(inWords).join(' or ')}`
    }
    if (isOnce(heard, 'ONCE_IN_FLIGHT')) {
      return others.length > 0 || this.#isHeld(call) ? null : 'was told that it is running, and nobody ran it'
    }
    if (isOnce(heard, 'ONCE_MISMATCH')) {
      return others.some((other) => other.input !== call.input) ? null : 'was told of another input that nobody gave'
    }
    if (isOnce(heard, 'ONCE_OUTCOME_UNKNOWN') && (others.some(foundUnknown) || this.#diedUnknown(call))) return null
    return 'should have run, and did not'
  }

  /** The process died while it found out that nobody knows what became of a call. */
  #diedUnknown(call: Call): boolean {
    if (this.#history.killedAt === null) return false
    return this.#history.steps.some(
      ({ exec, keyed, reconciles, outside, heard }) =>
        exec.call?.key === call.key && !keyed && !reconciles && (outside.length > 0 || heard === null),
    )
  }

  /** Refused for where it was called from, whatever its key. `sure`: nothing else may happen. */
  #refusedUnseen(call: Call): { heard: readonly Heard[]; sure: boolean; aborted: boolean } | null {
    const hosting = hostingOf(call)
    const around = operationsAround(call).filter(({ key }) => key === call.key)
    const itself =
      around.length === 0 ? [] : [IN_FLIGHT, ...(around.some(({ input }) => input !== call.input) ? [MISMATCH] : [])]
    if (hosting.kind === 'closed') return { heard: [...CLOSED, ...itself], sure: true, aborted: false }
    const heard: Heard[] = [...itself]
    const hosts = hosting.kind === 'in' ? [hosting.host] : hosting.kind === 'loose' ? hosting.hosts : []
    if (hosting.kind === 'loose' && hosting.mayBeClosed) heard.push(...CLOSED)
    if (call.mode === 'leased' && hosts.length > 0) heard.push(NESTED_LEASE)
    const aborted = hosts.some((host) => isAborted(host, call.at, this.#dialect))
    const tainted = hosts.some(
      (host) => isTainted(host, this.#dialect) || isAbortedBeside(host, call.at, this.#dialect),
    )
    if (heard.length === 0 && !aborted && !tainted) return null
    const inside = operationsAround(call, true).some(({ key }) => key === call.key)
    const certain = inside || (hosting.kind === 'in' && (aborted || heard.length > itself.length))
    return { heard, sure: certain && !tainted, aborted: aborted || tainted }
  }

  /** What everybody must know of by now. */
  #keptBefore(call: Call): Completion[] {
    return this.#completions(call.key, call).filter((completion) => {
      if (completion.call === call) return false
      const order = orderInTransaction(completion.call, call)
      if (order !== undefined) return order
      return releasedAt(completion.call) < call.at && this.#fates.kept(completion) && completion.call.heard !== null
    })
  }

  /** A refusal from inside is told by its refuser alone: which of several calls has stored it, nobody can tell. */
  #mayBeAnothers({ call, refused, answer }: Completion): boolean {
    if (!refused || hostingOf(call).kind !== 'loose') return false
    return this.#completions(call.key, call).some((other) => other.refused && isAmong(other.answer, [answer]))
  }

  *#candidates(key: string): Generator<Call> {
    for (const call of this.#history.calls) if (call.key === key) yield call
  }

  #completions(key: string, except: Call): Completion[] {
    return [...this.#candidates(key)].filter((call) => call !== except).flatMap((call) => completionsOf(call))
  }

  /** Calls of the same key that were going on meanwhile, elsewhere. */
  #beside(call: Call): Call[] {
    const around = new Set(operationsAround(call, true))
    return [...this.#candidates(call.key)].filter((other) => {
      if (other === call || around.has(other)) return false
      if (other.heard === null && other.at < call.at) return true
      if (orderInTransaction(other, call) === false) return false
      return other.at < (call.end ?? Infinity) && releasedAt(other) > call.at
    })
  }

  /** What an earlier leased attempt left behind: its input, or that nobody knows what became of it. */
  #attemptedBefore(call: Call): readonly Heard[] | null {
    const earlier = this.#leasedBefore(call)
    const [first] = earlier
    if (!first) return null
    if (first.input !== call.input) return [MISMATCH]
    const steps = earlier.flatMap(({ execs }) => execs.flatMap((exec) => exec.steps))
    const found = steps.some(
      ({ heard, end }) => heard !== null && isAmong(heard, [UNKNOWN]) && (end ?? Infinity) < call.at,
    )
    if (found) return [UNKNOWN]
    if (call.mode === 'leased') return null
    // Only a leased handler knows its steps. A batch takes nothing over, with or without them.
    const alone = call.mode === 'batched' && hostingOf(call).kind === 'none'
    return alone || earlier.some(hasRecorded) ? [UNKNOWN] : null
  }

  #leasedBefore(call: Call): Call[] {
    return [...this.#candidates(call.key)].filter(
      (other) => other.end !== null && other.end < call.at && other.execs.some(({ kind }) => kind === 'leased'),
    )
  }

  /** A lease that nobody let go: its holder died, or left a step behind. */
  #isHeld(call: Call): boolean {
    if (this.#history.killedAt !== null && call.at > this.#history.killedAt) {
      // It lapses: only the last word counts.
      return [...this.#candidates(call.key)].some((other) => other.at > call.at)
    }
    return [...this.#candidates(call.key)].some(
      (other) => other.at < call.at && other.heard !== null && isOnce(other.heard, 'ONCE_STEP_PENDING'),
    )
  }
}

/**
 * Nested operations of one transaction take turns in the order of their calls. True: the first is done before the second
 * and was not undone. False: it was undone, or comes later. Undefined: they do not share a transaction, as far as is known.
 */
function orderInTransaction(first: Call, second: Call): boolean | undefined {
  const a = pathOf(first)
  const b = pathOf(second)
  if (!a || !b || a.root !== b.root) return undefined
  // Messages of one batch share a transaction, their executions do not tell which.
  let i = 0
  while (a.path[i] !== undefined && a.path[i] === b.path[i]) i++
  const before = a.path[i]
  const after = b.path[i]
  // One is inside the other.
  if (!before || !after) return false
  if (before.at > after.at) return false
  // A refusal stays as a record, but what was nested in it is undone.
  return a.path.slice(i).every((call) => {
    const { heard } = call
    return heard !== null && ('value' in heard || (call === first && heard.error.kind === 'final'))
  })
}

function isInOwn(call: Call): boolean {
  const root = pathOf(call)?.root
  return root !== undefined && 'is' in root && root.is === 'own'
}

function publishesInside({ execs }: Call): boolean {
  return execs.some(({ publishes, calls }) => publishes.length > 0 || calls.some(publishesInside))
}

/** It found that nobody knows what became of a step. */
function foundUnknown({ execs }: Call): boolean {
  return execs.some(({ steps }) => steps.some(({ heard }) => heard !== null && isAmong(heard, [UNKNOWN])))
}

/** Or perhaps so: its process was killed before its handler began. */
function hasLease({ mode, execs, heard }: Call): boolean {
  return execs.some(({ kind }) => kind === 'leased') || (mode === 'leased' && heard === null && execs.length === 0)
}

/** It left a step behind: one that was done, or one without a key that was begun. */
function hasRecorded({ execs }: Call): boolean {
  return execs.some(
    ({ kind, outcome, steps }) =>
      (kind === 'step.tx' && outcome !== null && 'value' in outcome) ||
      steps.some(({ heard, keyed, outside }) =>
        keyed ? heard !== null && 'value' in heard : outside.length > 0 || (heard !== null && 'value' in heard),
      ),
  )
}

/** The statement of a batch is made for every call; only its answer shows that it ran. */
function hasRun({ execs }: Call): boolean {
  return execs.some(({ kind, writes }) => kind !== 'batched' || writes.some(({ heard }) => heard !== null))
}

function lastOf(call: Call): Exec | undefined {
  return call.execs.filter(({ kind }) => kind !== 'commit' && kind !== 'step.tx').at(-1)
}

export function inWords(heard: Heard | undefined): string {
  if (heard === undefined) return 'nothing'
  if ('value' in heard) return heard.value === null ? 'an answer' : `the answer of execution ${heard.value}`
  const { error } = heard
  switch (error.kind) {
    case 'once':
      return error.code
    case 'final':
      return `the refusal of execution ${error.by}`
    case 'thrown':
      return `what execution ${error.by} threw`
    case 'sql':
      return error.state === '*' ? 'an error of its own statement' : `SQL error ${error.state}`
    case 'other':
      return error.text === '*' ? 'what the driver says of it' : error.text
  }
}
