import { eventsOf } from '../trace.ts'
import type { EventOf, TraceEvent } from '../trace.ts'
import type { Checker } from './checker.ts'

/** The times of events, as positions in the trace. */
interface Times {
  /** When the effect of an execution became durable. */
  readonly committed: ReadonlyMap<number, number>
  /** When a handler ended. */
  readonly ran: ReadonlyMap<number, number>
  readonly began: ReadonlyMap<number, { readonly at: number; readonly call: EventOf<'inner'> }>
}

export const withItsOuter: Checker = {
  id: 'I25',
  says: 'an inner operation commits with its outer one or not at all; its answer holds if the outer one commits',
  check(trace) {
    const times = timesOf(trace)
    const broken: string[] = []
    for (const [at, event] of trace.entries()) {
      if (event.kind === 'run' && event.inner !== null) broken.push(...together(times, event.inner, event))
      else if (event.kind === 'stated') broken.push(...together(times, event.inner, event))
      else if (event.kind === 'innerOutcome') broken.push(...untrue(times, event, at))
    }
    return [...broken, ...rowsOf(trace, times)]
  },
}

function together(times: Times, inner: number, { exec, key }: { exec: number; key: string }): string[] {
  const call = times.began.get(inner)
  const at = times.committed.get(exec)
  if (call === undefined || at === undefined || !isInside(times, call)) return []
  const { outer } = call.call
  if (times.committed.get(outer) === at) return []
  return [`execution ${exec} of ${key} committed, without execution ${outer} that it ran inside of`]
}

function untrue(times: Times, { inner, key, result }: EventOf<'innerOutcome'>, at: number): string[] {
  const call = times.began.get(inner)
  if (call === undefined) return []
  const { outer, inside, through } = call.call
  const end = times.committed.get(outer)
  const apart = inside === false || (end !== undefined && call.at > end)
  if (result.is === 'error') {
    const closed = result.code === 'ONCE_TX_CLOSED' || result.code === 'ONCE_TX_REQUIRED'
    return apart && closed && through === 'run'
      ? [`${key} was refused for an operation that had ended: ${result.code}`]
      : []
  }
  if (result.is !== 'value') return []
  const committed = times.committed.get(result.exec) ?? Infinity
  const told = `execution ${outer} was told the answer of execution ${result.exec} of ${key}`
  if (apart) return committed < at ? [] : [`${told}, which has not committed`]
  // The call began between the end of the handler and the commit. It may be an independent operation or a nested one.
  if (!isInside(times, call) && committed < at) return []
  return end !== undefined && committed > end ? [`${told} inside, and committed without it`] : []
}

/** Whether the call began while the handler ran, in its transaction. */
function isInside({ ran }: Times, { at, call }: { at: number; call: EventOf<'inner'> }): boolean {
  return call.inside === true && at < (ran.get(call.outer) ?? Infinity)
}

/** A row that a handler was told is written must commit with the handler, whatever ran beside it. */
function rowsOf(trace: readonly TraceEvent[], { committed }: Times): string[] {
  const rows = new Set(
    eventsOf(trace, 'commit').flatMap(({ effects }) => effects.map(({ exec, part }) => `${exec} ${part}`)),
  )
  return eventsOf(trace, 'wrote').flatMap(({ exec, part }) =>
    committed.has(exec) && !rows.has(`${exec} ${part}`)
      ? [`execution ${exec} committed without its row '${part}'`]
      : [],
  )
}

function timesOf(trace: readonly TraceEvent[]): Times {
  const committed = new Map<number, number>()
  const ran = new Map<number, number>()
  const began = new Map<number, { at: number; call: EventOf<'inner'> }>()
  for (const [at, event] of trace.entries()) {
    if (event.kind === 'ran') ran.set(event.exec, at)
    else if (event.kind === 'inner') began.set(event.inner, { at, call: event })
    else if (event.kind === 'commit')
      for (const { exec, part } of event.effects) if (part === 'main' || part === 'own') committed.set(exec, at)
  }
  return { committed, ran, began }
}
