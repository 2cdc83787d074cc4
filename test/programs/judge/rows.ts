import {
  childrenBeside,
  failsAtOnce,
  isAborted,
  isAbortedBeside,
  isDeadlock,
  isOnce,
  isTainted,
  isUsersOwn,
  saysAborted,
  type Dialect,
} from './failures.ts'
import { isOwnAnswer, type Fates } from './fates.ts'
import type { Call, History, Publish, Write } from './history.ts'
import type { Seen } from './seen.ts'
import { hostsAbove, isLive, settledAt, type Host } from './transactions.ts'
import { inWords } from './model.ts'
import type { Violation } from './violation.ts'

/** What statements of handlers heard. */
export function statementsWrong({ execs, owns }: History, dialect: Dialect): Violation[] {
  return [...execs, ...owns]
    .filter((host) => host.is === 'own' || host.kind !== 'batched')
    .flatMap((host) => [
      ...host.writes.flatMap((write) => writeWrong(host, write, dialect)),
      ...host.publishes.flatMap((publish) => publishWrong(host, publish, dialect)),
    ])
}

function writeWrong(host: Host, write: Write, dialect: Dialect): Violation[] {
  const { heard } = write
  if (heard === null) return []
  const told = (text: string): Violation[] => [{ rule: 'statement', text: `a write in ${whose(host)} ${text}` }]
  if (!isLive(host, write.at)) {
    if (settledAt(host) > write.at || isOnce(heard, 'ONCE_TX_CLOSED')) return []
    return told(`after its end heard ${inWords(heard)}, not ONCE_TX_CLOSED`)
  }
  // Nobody awaited it: its operation ended first.
  if (!isLive(host, write.end ?? Infinity)) return []
  if ('value' in heard) return failsAtOnce(write) ? told('succeeded although it must not') : []
  if (failsAtOnce(write) && isUsersOwn(heard)) return []
  if (write.lock !== null && isDeadlock(heard)) return []
  if (saysAborted(heard) && mayBeAborted(host, write, dialect)) return []
  return told(`failed: ${inWords(heard)}`)
}

/** A statement before it, beside it, or beside this whole nested operation has failed. */
function mayBeAborted(host: Host, write: Write, dialect: Dialect): boolean {
  if (isAborted(host, host.is === 'own' ? (write.end ?? Infinity) : write.at, dialect)) return true
  const around = [host, ...hostsAbove(host)]
  return dialect.aborts && around.some((one) => isTainted(one, dialect) || isAbortedBeside(one, write.at, dialect))
}

function publishWrong(host: Host, publish: Publish, dialect: Dialect): Violation[] {
  const { heard, fault } = publish
  if (heard === null) return []
  const told = (text: string): Violation[] => [{ rule: 'statement', text: `publish in ${whose(host)} ${text}` }]
  if (!isLive(host, publish.at)) {
    if (settledAt(host) > publish.at || isOnce(heard, 'ONCE_TX_CLOSED')) return []
    return told(`after its end heard ${inWords(heard)}, not ONCE_TX_CLOSED`)
  }
  if (fault !== null)
    return isOnce(heard, 'ONCE_EVENT_INVALID') ? [] : told(`of what is no JSON heard ${inWords(heard)}`)
  if ('value' in heard) return []
  // Its locks are held until the user's commit, and are taken in no order that everybody keeps: two may meet.
  if (isOnce(heard, 'ONCE_CONFLICT') && host.is === 'own') return []
  const aborted = [host, ...hostsAbove(host)].some(
    (one) => isAborted(one, Infinity, dialect) || isTainted(one, dialect) || isAbortedBeside(one, publish.at, dialect),
  )
  return aborted && saysAborted(heard) ? [] : told(`failed: ${inWords(heard)}`)
}

/** Rows and events are in the database if and only if the operation they belong to is done. */
export function rowsWrong({ execs, owns }: History, fates: Fates, seen: Seen, name: string): Violation[] {
  const rows = new Set(seen.rows)
  const events = new Set(seen.events)
  const violations: Violation[] = []
  for (const host of [...execs, ...owns]) {
    const alive = fates.alive(host)
    const whole = alive ? 'is done' : 'is not done'
    for (const write of host.writes) {
      const is = rows.delete(`${name}.${write.id}`)
      const should = alive && write.heard !== null && 'value' in write.heard
      if (is !== should && !(should && mayBeLost(host, write)))
        violations.push({
          rule: 'rows',
          text: `${whose(host)} ${whole}, its row ${write.id} is ${is ? '' : 'not '}there`,
        })
    }
    violations.push(...eventsWrong(host, alive, events, name))
  }
  for (const row of rows) violations.push({ rule: 'rows', text: `row ${row} is there, and nobody wrote it` })
  for (const event of events)
    violations.push({ rule: 'events', text: `event ${event} is there, and nobody published it` })
  return violations
}

function eventsWrong(host: Host, alive: boolean, events: Set<string>, name: string): Violation[] {
  const there = host.publishes.filter(({ id }) => events.delete(`${name}.${id}`))
  const should = alive ? host.publishes.filter(({ heard }) => heard !== null && 'value' in heard) : []
  // A batch that ran again published again: the last time counts.
  if (host.is === 'exec' && host.kind === 'batched' && there.length === Math.min(1, should.length)) return []
  const wrong = host.publishes.filter(
    (publish) =>
      there.includes(publish) !== should.includes(publish) && !(should.includes(publish) && mayBeLost(host, publish)),
  )
  return wrong.map((publish) => ({
    rule: 'events',
    text: `${whose(host)} is ${alive ? '' : 'not '}done, its event ${publish.id} is ${there.includes(publish) ? '' : 'not '}there`,
  }))
}

/**
 * Beside a joined operation that failed, or that only replayed, a statement of the user's own transaction may have been
 * inside its savepoint, or inside that of an operation nested in it.
 */
function mayBeLost(host: Host, write: Write | Publish): boolean {
  return childrenBeside(host, write).some(rollsBack)
}

function rollsBack({ execs }: Call): boolean {
  return !execs.some(isOwnAnswer) || execs.some(({ calls }) => calls.some(rollsBack))
}

function whose(host: Host): string {
  if (host.is === 'own') return `the own transaction ${host.id}`
  const of = host.message ? `message ${host.message.id}` : host.call?.key
  return `execution ${host.id} (${host.kind} of ${of})`
}
