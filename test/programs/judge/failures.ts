import type { Operation, Program } from '../program.ts'
import type { Heard, Told } from '../trace.ts'
import type { Call, Exec, Write } from './history.ts'
import { isOwnAnswer } from './fates.ts'
import { childrenOf, hostingOf, type Host } from './transactions.ts'

/** What is different between databases. */
export interface Dialect {
  /** A failed statement makes the whole transaction fail, up to the savepoint before it. */
  readonly aborts: boolean
}

const DEADLOCK = '40P01'

export function isOnce(heard: Heard, ...codes: readonly string[]): boolean {
  return 'error' in heard && heard.error.kind === 'once' && codes.includes(heard.error.code)
}

/** "The current transaction is aborted", by the database or by the library. */
export function saysAborted(heard: Heard): boolean {
  return (
    isOnce(heard, 'ONCE_ROLLED_BACK') ||
    ('error' in heard && heard.error.kind === 'sql' && heard.error.state === '25P02')
  )
}

/** Two waited for each other's locks, and this one was chosen to fail. */
export function isDeadlock(heard: Heard): boolean {
  return 'error' in heard && heard.error.kind === 'sql' && heard.error.state === DEADLOCK
}

/** An error of the user's own statement: the database's words, or what the driver could not send. */
export function isUsersOwn(heard: Heard): boolean {
  return 'error' in heard && (heard.error.kind === 'sql' || heard.error.kind === 'other')
}

/** Refused by the statement itself, not by the commit. */
export function failsAtOnce({ fault }: Pick<Write, 'fault'>): boolean {
  return fault !== null && !failsLate({ fault })
}

/** Accepted, and refused by the commit. */
export function failsLate({ fault }: Pick<Write, 'fault'>): boolean {
  return fault === 'deferred' || fault === 'orphan'
}

function failed({ heard }: Write): boolean {
  return heard !== null && 'error' in heard && !isOnce(heard, 'ONCE_TX_CLOSED')
}

/** What the driver could not even send may leave the transaction as it was. */
function failedInDatabase(write: Write): boolean {
  return failed(write) && write.fault !== 'unserialisable'
}

function overlaps(a: { at: number; end: number | null }, b: { at: number; end: number | null }): boolean {
  return a.at < (b.end ?? Infinity) && b.at < (a.end ?? Infinity)
}

/**
 * A statement of the user's own transaction that ran beside a joined operation: it may have been inside the other's
 * savepoint. Those of an operation take turns with what is nested in it.
 */
export function childrenBeside(host: Host, write: Pick<Write, 'at' | 'end'>): Call[] {
  return host.is === 'own' ? childrenOf(host).filter((call) => overlaps(call, write)) : []
}

/** A statement failed, and nobody can say whether it broke the transaction, or whose savepoint. */
export function isTainted(host: Host, { aborts }: Dialect): boolean {
  return (
    aborts &&
    host.writes.some(
      (write) => failed(write) && (write.fault === 'unserialisable' || childrenBeside(host, write).length > 0),
    )
  )
}

/** The transaction of this host was aborted by one of its own statements before this time. */
export function isAborted(host: Host, at: number, { aborts }: Dialect): boolean {
  const since = (write: Write): number => (host.is === 'own' ? (write.end ?? Infinity) : write.at)
  return aborts && host.writes.some((write) => failedInDatabase(write) && since(write) < at)
}

/** Messages of one batch share a transaction: one of them may have aborted it for this one, which then runs again alone. */
export function isAbortedBeside(host: Host, at: number, dialect: Dialect): boolean {
  if (host.is === 'own' || host.kind !== 'message' || !host.message) return false
  return host.message.drain.execs.some((other) => other !== host && isAborted(other, at, dialect))
}

/** A statement of the host failed that nothing but the end of the host has undone. */
export function isAbortedAtEnd(host: Host, dialect: Dialect): boolean {
  return isAborted(host, Infinity, dialect)
}

/** Something that COMMIT will refuse is in this transaction, and was not undone. */
export function isPoisoned(host: Host): boolean {
  if (host.writes.some((write) => failsLate(write) && write.heard !== null && 'value' in write.heard)) return true
  return childrenOf(host).some((call) => call.execs.some((exec) => isOwnAnswer(exec) && isPoisoned(exec)))
}

/** What an operation inside left behind may have joined this one, and COMMIT will refuse it. */
export function mayBePoisoned(host: Host): boolean {
  return host.calls.some((call) => {
    if (hostingOf(call).kind === 'loose' && call.execs.some(isPoisoned)) return true
    return call.execs.some(mayBePoisoned)
  })
}

/** What the caller of an operation may hear, after this execution of its handler. */
export function heardAfter(exec: Exec, program: Program, dialect: Dialect): readonly Heard[] {
  const call = exec.call as Call
  const operation = program.operations[call.op] as Operation
  if (exec.kind === 'batched') return [...afterBatched(exec, call, operation), ...afterLock(call, operation)]
  if (exec.kind === 'leased') return afterLeased(exec, call)
  return afterTransaction(exec, call.calm ? 'plain' : answerOf(operation), hostingOf(call).kind, dialect)
}

function answerOf(operation: Operation): 'plain' | 'unserialisable' {
  return operation.mode === 'batched' ? 'plain' : operation.answer
}

const ROLLED_BACK = once('ONCE_ROLLED_BACK')
/** What a deadlock comes to when it was met again and again. */
const CONFLICT = once('ONCE_CONFLICT')
/** Any error of the user's own. */
export const USERS_OWN: Heard = { error: { kind: 'sql', state: '*' } }

/** The end of an atomic handler, of `commit`, or of `step.tx`. */
export function afterTransaction(
  exec: Exec,
  answer: 'plain' | 'unserialisable',
  hosting: 'none' | 'in' | 'closed' | 'loose',
  dialect: Dialect,
): readonly Heard[] {
  const { heard } = exec
  if (heard === null) return []
  const invalid = exec.publishes.some(
    (publish) => publish.heard !== null && isOnce(publish.heard, 'ONCE_EVENT_INVALID'),
  )
  // An event that is none fails the operation, also one that would have been refused.
  const events = invalid ? [once('ONCE_EVENT_INVALID')] : []
  if (isDeadlock(heard)) return [heard, CONFLICT]
  if ('error' in heard) return heard.error.kind === 'final' ? [heard, ...events] : [heard]
  const faults: Heard[] = [...events]
  if (answer === 'unserialisable') faults.push(once('ONCE_ANSWER_INVALID'))
  if (isAbortedAtEnd(exec, dialect)) faults.push(ROLLED_BACK)
  if (hosting !== 'in' && isPoisoned(exec)) faults.push(USERS_OWN)
  if (faults.length === 0 || (hosting === 'loose' && isPoisoned(exec))) faults.push({ value: exec.id })
  if (hosting !== 'in' && mayBePoisoned(exec)) faults.push(USERS_OWN)
  if (isTainted(exec, dialect)) faults.push({ value: exec.id }, ROLLED_BACK)
  return faults
}

function afterLeased(exec: Exec, call: Call): readonly Heard[] {
  const committed = call.execs.find((other) => other.kind === 'commit' && other.of === exec && isValue(other.outcome))
  if (committed) return [{ value: committed.id }]
  if (exec.heard === null) return []
  // Nobody knows what became of a step: whatever the handler makes of that, the operation waits for an operator.
  const unknown = once('ONCE_OUTCOME_UNKNOWN')
  if (exec.steps.some(({ heard }) => heard !== null && isAmong(heard, [unknown]))) return [unknown]
  return 'error' in exec.heard ? [exec.heard] : [once('ONCE_NOT_COMMITTED')]
}

function isValue(heard: Heard | null): boolean {
  return heard !== null && 'value' in heard
}

/** Whoever waited for a lock may have waited too long, or have met a deadlock; a batch runs again after that. */
function afterLock(call: Call, operation: Operation): readonly Heard[] {
  if (operation.mode !== 'batched' || operation.lock === null || call.calm) return []
  const late = operation.asks === 'hurried' ? [once('ONCE_DEADLINE')] : []
  return hostingOf(call).kind === 'none' ? late : [...late, { error: { kind: 'sql', state: DEADLOCK } }]
}

function afterBatched(exec: Exec, call: Call, operation: Operation): readonly Heard[] {
  const fault = operation.mode === 'batched' && !call.calm ? operation.fault : null
  switch (fault) {
    case null:
      return [{ value: exec.id }]
    case 'throws':
      return [{ error: { kind: 'thrown', by: exec.id } }]
    case 'refuses':
      return [{ error: { kind: 'final', by: exec.id } }]
    case 'answer':
      return [once('ONCE_ANSWER_INVALID')]
    case 'deferred':
    case 'orphan':
      // Inside another operation it is that one's commit that fails.
      return { none: [USERS_OWN], in: [{ value: exec.id }], closed: [], loose: [USERS_OWN, { value: exec.id }] }[
        hostingOf(call).kind
      ]
    case 'unserialisable':
      return [USERS_OWN, { error: { kind: 'other', text: '*' } }, once('ONCE_INPUT_INVALID')]
    default:
      return [USERS_OWN]
  }
}

export function once(code: string): Heard {
  return { error: { kind: 'once', code } }
}

/** Whether what was heard is one of these; `*` stands for any. */
export function isAmong(heard: Heard, allowed: readonly Heard[]): boolean {
  return allowed.some((one) => {
    if ('value' in one || 'value' in heard) return 'value' in one && 'value' in heard && one.value === heard.value
    return sameError(one.error, heard.error)
  })
}

function sameError(allowed: Told, told: Told): boolean {
  if (allowed.kind !== told.kind) return false
  switch (allowed.kind) {
    case 'sql':
      return allowed.state === '*' || allowed.state === (told as typeof allowed).state
    case 'other':
      return allowed.text === '*' || allowed.text === (told as typeof allowed).text
    case 'once':
      return allowed.code === (told as typeof allowed).code
    default:
      return allowed.by === (told as typeof allowed).by
  }
}
