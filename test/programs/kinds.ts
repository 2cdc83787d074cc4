import { isDeadlock, isOnce } from './judge/failures.ts'
import { hostingOf, operationsAround, settledAt, type Host } from './judge/transactions.ts'
import type { Call, Exec, History } from './judge/history.ts'
import { namespaceOf, type StoreName } from './program.ts'

/** Everything that programs are made of, and everything that goes wrong in them. A run in which one of these is rare fails. */
const KINDS = [
  'run',
  'nested run',
  'join of an own transaction',
  'join inside an operation',
  'batched',
  'batched inside an operation',
  'batched beside a request that asks for something else',
  'leased',
  'leased inside an operation',
  'step',
  'step without a key',
  'step.tx',
  'operation inside step.tx',
  'commit',
  'reconcile',
  'publish',
  'publish in an own transaction',
  'consumer',
  'pipelined consumer',
  'leased consumer',
  'consumer of the outbox',
  'operation inside a consumer',
  'redelivered message',
  'catch',
  'all',
  'all inside an operation',
  'allSettled',
  'race',
  'race inside an operation',
  'detached now',
  'detached soon',
  'detached after',
  'another instance inside an operation',
  'another namespace inside an operation',
  'same key again',
  'same key twice in one transaction',
  'same key at the same time',
  'another input',
  'another mode of the same key',
  'itself inside itself',
  'throw',
  'refusal',
  'nested refusal',
  'rolled back after a nested operation was done',
  'savepoint released',
  'savepoint rolled back to',
  'raise',
  'unique',
  'check',
  'deferred',
  'orphan',
  'unserialisable value',
  'unserialisable answer',
  'unserialisable event',
  'step fails',
  'lock wait',
  'lock wait inside a batch',
  'late inside a batch',
  'deadlock',
  'kill',
] as const

export type Kind = (typeof KINDS)[number]

/** With one writer at a time nobody waits for a row. */
/** Of the user's own. */
const SAVEPOINTS: readonly Kind[] = ['savepoint released', 'savepoint rolled back to']

const LOCKS: readonly Kind[] = ['lock wait', 'lock wait inside a batch', 'late inside a batch', 'deadlock']

/** What a store does not have. */
const WITHOUT: Readonly<Record<StoreName, readonly Kind[]>> = {
  pg: [],
  sqlite: ['deferred', ...LOCKS],
  'sqlite-shared': ['deferred', 'orphan', ...LOCKS],
  memory: ['raise', 'check', 'deferred', 'orphan', 'unserialisable value', 'kill', ...LOCKS, ...SAVEPOINTS],
}

export function kindsFor(store: StoreName): readonly Kind[] {
  return KINDS.filter((kind) => !WITHOUT[store].includes(kind))
}

/** What was reached, not what was planned: a program that throws early does not count for what comes after. */
export function kindsOf(history: History): Set<Kind> {
  const kinds = new Set<Kind>()
  const asked = history.calls.filter(({ calm }) => !calm)
  for (const call of asked) for (const kind of kindsOfCall(call, history)) kinds.add(kind)
  for (const [i, call] of asked.entries())
    for (const other of asked.slice(0, i)) {
      if (other.key === call.key) for (const kind of kindsOfPair(other, call)) kinds.add(kind)
      if (areMixed(other, call, history)) kinds.add('batched beside a request that asks for something else')
    }
  for (const exec of history.execs) for (const kind of kindsOfExec(exec, history)) kinds.add(kind)
  for (const { what, exec } of history.reached) {
    if (what.startsWith('reconciled')) kinds.add('reconcile')
    else kinds.add(what as Kind)
    if (exec && (what === 'all' || what === 'race')) kinds.add(`${what} inside an operation`)
  }
  for (const own of history.owns) if (own.publishes.length > 0) kinds.add('publish in an own transaction')
  for (const { consumer } of history.drains) {
    const plan = history.program.consumers[consumer]
    kinds.add('consumer')
    if (plan?.pipelined) kinds.add('pipelined consumer')
    if (plan?.commit) kinds.add('leased consumer')
    if (plan?.from === 'outbox') kinds.add('consumer of the outbox')
    if (plan && new Set(plan.messages.map(({ id }) => id)).size < plan.messages.length) kinds.add('redelivered message')
  }
  if (history.drains.length > 1) kinds.add('redelivered message')
  for (const kind of kindsOfLocks(history)) kinds.add(kind)
  if (history.killedAt !== null) kinds.add('kill')
  return kinds
}

/** They would have met in one batch. */
function areMixed(other: Call, call: Call, { program }: History): boolean {
  const [one, two] = [other, call].map(({ op }) => program.operations[op])
  if (one?.mode !== 'batched' || two?.mode !== 'batched' || one.asks === two.asks || other.via !== call.via)
    return false
  const alone = [other, call].every((at) => hostingOf(at).kind === 'none')
  return alone && call.at < (other.end ?? Infinity)
}

function* kindsOfLocks({ execs, owns }: History): Generator<Kind> {
  const held = [...execs, ...owns].flatMap((host) =>
    host.writes.filter(({ lock }) => lock !== null).map((write) => ({ host, write })),
  )
  for (const { host, write } of held) {
    const { at, lock, heard } = write
    if (heard !== null && isDeadlock(heard)) yield 'deadlock'
    const waits = held.some(
      (other) => other.host !== host && other.write.lock === lock && isOpen(other.host, other.write.at, at),
    )
    if (!waits) continue
    yield 'lock wait'
    const call = host.is === 'exec' && host.kind === 'batched' ? host.call : null
    if (call) yield 'lock wait inside a batch'
    if (call?.heard && isOnce(call.heard, 'ONCE_DEADLINE')) yield 'late inside a batch'
  }
}

/** It has the lock since then, and its transaction goes on. */
function isOpen(host: Host, since: number, at: number): boolean {
  return (
    since < at && settledAt(host) > at && !(host.is === 'exec' && host.call && hostingOf(host.call).kind !== 'none')
  )
}

function* kindsOfCall(call: Call, { program }: History): Generator<Kind> {
  const hosting = hostingOf(call)
  const host = hosting.kind === 'in' ? hosting.host : null
  const refused = call.heard !== null && 'error' in call.heard && call.heard.error.kind === 'final'
  if (call.mode === 'leased') yield host ? 'leased inside an operation' : 'leased'
  else if (call.mode === 'batched') yield host ? 'batched inside an operation' : 'batched'
  else if (call.how === 'join') yield host?.is === 'own' ? 'join of an own transaction' : 'join inside an operation'
  else yield host ? 'nested run' : 'run'
  if (host && refused) yield 'nested refusal'
  if (host?.is === 'exec' && host.message) yield 'operation inside a consumer'
  if (host?.is === 'exec' && host.kind === 'step.tx') yield 'operation inside step.tx'
  const via = host?.is === 'exec' ? (host.call?.via ?? null) : null
  if (via !== null && via !== call.via) {
    yield namespaceOf(via) === namespaceOf(call.via)
      ? 'another instance inside an operation'
      : 'another namespace inside an operation'
  }
  if (operationsAround(call).some(({ key }) => key === call.key)) yield 'itself inside itself'
  const operation = program.operations[call.op]
  if (operation?.mode === 'batched' && operation.fault === 'answer') yield 'unserialisable answer'
}

function* kindsOfPair(first: Call, second: Call): Generator<Kind> {
  yield first.input === second.input ? 'same key again' : 'another input'
  if (first.mode !== second.mode) yield 'another mode of the same key'
  if (first.end === null || first.end > second.at) yield 'same key at the same time'
  const hosts = [first, second].map((call) => hostingOf(call))
  if (hosts[0]?.kind === 'in' && hosts[1]?.kind === 'in' && hosts[0].host === hosts[1].host)
    yield 'same key twice in one transaction'
}

function* kindsOfExec(exec: Exec, { program }: History): Generator<Kind> {
  if (exec.call?.calm) return
  if (exec.kind === 'commit' || exec.kind === 'step.tx') yield exec.kind
  if (exec.publishes.length > 0) yield 'publish'
  if (exec.publishes.some(({ fault }) => fault)) yield 'unserialisable event'
  for (const { fault } of exec.writes) if (fault) yield fault === 'unserialisable' ? 'unserialisable value' : fault
  for (const step of exec.steps) {
    yield step.keyed ? 'step' : 'step without a key'
    if (step.heard !== null && 'error' in step.heard) yield 'step fails'
  }
  const failed = exec.heard !== null && 'error' in exec.heard
  if (failed && exec.calls.some(({ heard }) => heard !== null && 'value' in heard))
    yield 'rolled back after a nested operation was done'
  const operation = exec.call && program.operations[exec.call.op]
  if (operation && operation.mode !== 'batched' && operation.answer === 'unserialisable' && !failed)
    yield 'unserialisable answer'
}
