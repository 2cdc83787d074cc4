import type { Call, Exec, Own } from './history.ts'

/** Who has a transaction that calls can join. */
export type Host = Exec | Own

/** In whose transaction a call is an operation. `loose`: what it came from was ending; in one of these, or on its own. */
export type Hosting =
  | { readonly kind: 'none' }
  | { readonly kind: 'in'; readonly host: Host }
  | { readonly kind: 'closed' }
  | { readonly kind: 'loose'; readonly hosts: readonly Host[]; readonly mayBeClosed: boolean }

const NONE: Hosting = { kind: 'none' }

export function hasTransaction(host: Host): boolean {
  return host.is === 'own' || (host.kind !== 'leased' && host.kind !== 'batched')
}

/** Its handler, or the user's function, is still going on. */
export function isLive(host: Host, at: number): boolean {
  return host.end === null || host.end > at
}

/** When its operation, its own transaction or its batch had ended: nothing of it is open any more. */
export function settledAt(host: Host): number {
  if (host.is === 'own') return host.end ?? Infinity
  switch (host.kind) {
    case 'commit':
    case 'step.tx':
      return host.endedAt ?? Infinity
    case 'message':
      return host.message?.drain.end ?? Infinity
    default:
      return (host.call ?? host.message?.drain)?.end ?? Infinity
  }
}

export function hostingOf(call: Call): Hosting {
  const { from, at, how } = call
  if (from === null) return NONE
  if (isLive(from, at)) return hasTransaction(from) ? { kind: 'in', host: from } : NONE
  // The user's own transaction is no operation: what was joined to it has ended, and nothing is around any more.
  const open = [from, ...hostsAbove(from)].filter(
    (host) => host.is === 'exec' && hasTransaction(host) && settledAt(host) > at,
  )
  if (how === 'join') {
    return open.includes(from) ? { kind: 'loose', hosts: [from], mayBeClosed: true } : { kind: 'closed' }
  }
  return open.length === 0 ? NONE : { kind: 'loose', hosts: open, mayBeClosed: false }
}

/** The operation that a host belongs to; null: a transaction of the user's own, a message. */
function callOf(host: Host): Call | null {
  return host.is === 'own' ? null : host.call
}

/** Of a history, which does not change any more: a long chain of calls that outlive each other has exponentially many ways up. */
const above = new WeakMap<Host, Host[]>()

/** Those whose transaction a nested operation shares, from the inside out. */
export function hostsAbove(host: Host): Host[] {
  let hosts = above.get(host)
  if (!hosts) above.set(host, (hosts = findHostsAbove(host)))
  return hosts
}

function findHostsAbove(host: Host): Host[] {
  if (host.is === 'own' || host.kind === 'commit' || host.kind === 'step.tx') return []
  const call = callOf(host)
  if (!call) return []
  const hosting = hostingOf(call)
  const hosts = hosting.kind === 'in' ? [hosting.host] : hosting.kind === 'loose' ? hosting.hosts : []
  return [...new Set(hosts.flatMap((next) => [next, ...hostsAbove(next)]))]
}

/**
 * Every operation that a call is made inside of, with or without a transaction, as long as they have not ended. `surely`:
 * only those that it cannot have outlived. One whose handler has ended may be letting go of its lease already.
 */
export function operationsAround(call: Call, surely = false): Call[] {
  const around: Call[] = []
  for (let inner = call; inner.from;) {
    const outer = callOf(inner.from)
    if (!outer || (surely && hostingOf(inner).kind === 'loose')) break
    const goesOn = surely ? isSurelyOpen(inner.from, call) : (outer.end ?? Infinity) > call.at
    if (goesOn) around.push(outer)
    inner = outer
  }
  return around
}

/** A leased operation may be done while its handler still goes on: its `commit` is its end, and anybody may see it. */
function isSurelyOpen(host: Host, call: Call): boolean {
  if (!isLive(handlerOf(host), call.at)) return false
  return host.is === 'own' || host.commitsAt === null || host.commitsAt > (call.end ?? Infinity)
}

/** Of `commit` and `step.tx`: the leased handler that they are part of. */
function handlerOf(host: Host): Host {
  return host.is === 'exec' ? (host.of ?? host) : host
}

/** The path of calls from the transaction down to this one; null when it is not sure in whose transaction it was. */
export function pathOf(call: Call): { readonly root: Host | Call; readonly path: readonly Call[] } | null {
  const hosting = hostingOf(call)
  if (hosting.kind === 'none') return { root: call, path: [call] }
  if (hosting.kind !== 'in') return null
  const { host } = hosting
  if (host.is === 'own' || host.kind !== 'atomic') return { root: host, path: [call] }
  if (!host.call) return null
  // An operation that was run again has another transaction: its execution is the root, not its call.
  if (hostingOf(host.call).kind === 'none') return { root: host, path: [call] }
  const outer = pathOf(host.call)
  return outer && { root: outer.root, path: [...outer.path, call] }
}

/** When the transaction that holds a call's key was over: until then others find it running. */
export function releasedAt(call: Call): number {
  const ends = [call.end ?? Infinity]
  const hosting = hostingOf(call)
  const hosts = hosting.kind === 'in' ? [hosting.host] : hosting.kind === 'loose' ? hosting.hosts : []
  for (const host of hosts) ends.push(settledAt(host), ...hostsAbove(host).map(settledAt))
  return Math.max(...ends)
}

/** The nested operations that surely share a host's transaction, in the order of their calls. */
export function childrenOf(host: Host): Call[] {
  return host.calls.filter((call) => {
    const hosting = hostingOf(call)
    return hosting.kind === 'in' && hosting.host === host
  })
}
