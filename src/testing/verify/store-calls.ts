import { AsyncLocalStorage } from 'node:async_hooks'
import type { Store } from '../../store/store.ts'
import { Patches } from '../simulate/patches.ts'
import type { Boundaries } from './boundaries.ts'
import type { LeftLease } from './boundary.ts'

type Args = readonly unknown[]
type Method = (...args: Args) => unknown
type Label = string | ((...args: never) => string)
type Labels = Readonly<Record<string, Label>>

interface Named {
  readonly name: string
}

/** Calls of the store that can change something, with the words of the report. The others get no boundary. */
const STORE: Labels = { begin: 'begin', open: 'begin', refuse: 'commit of the refusal' }
const LEASES: Labels = {
  claim: 'claim with a lease',
  takeOver: 'take over of the lease',
  startStep: ({ name }: Named) => `intent of step '${name}'`,
  finishStep: ({ name }: Named) => `result of step '${name}'`,
  finish: 'commit of the answer',
  suspend: 'record of the unknown outcome',
}
const SESSION: Labels = {
  complete: ({ events }: { readonly events: Args }) =>
    events.length === 0 ? 'commit' : `commit with ${events.length} published`,
  completeStep: ({ name }: Named) => `commit of step '${name}'`,
}
const BATCHES: Labels = { open: 'begin of the batch' }
const BATCH_SESSION: Labels = { effects: 'statements of the batch', complete: 'commit of the batch' }
const OUTBOX: Labels = {
  lease: 'relay: lease shards',
  ack: 'relay: record what was sent',
  tryHeld: 'relay: record a try',
  settleHeld: 'relay: record held events',
  takeDelayed: 'relay: take delayed events',
}
const INBOX: Labels = {
  take: 'consumer: begin',
  enter: 'consumer: inbox row',
  trying: 'consumer: record a try',
  failed: 'consumer: record a failure',
  park: 'consumer: park',
  pass: 'consumer: record the position',
}
const INBOX_SESSION: Labels = {
  complete: ({ events }: { readonly events: Args }) =>
    events.length === 0 ? 'consumer: commit' : `consumer: commit with ${events.length} published`,
}

const inside = new AsyncLocalStorage<true>()

/** The code that runs now is the store's own. */
export function isInsideStore(): boolean {
  return inside.getStore() === true
}

/**
 * Turns the calls of an instance to its store into boundaries. The store objects are patched in place, so every holder
 * of them is reached.
 */
export class StoreCalls {
  readonly #boundaries: Boundaries
  readonly #left: (left: LeftLease) => void
  readonly #store: Store<unknown>

  constructor(store: Store<unknown>, boundaries: Boundaries, left: (left: LeftLease) => void) {
    this.#store = store
    this.#boundaries = boundaries
    this.#left = left
    this.#patchParts()
  }

  /** Ends the leases of a process that is dead. */
  async end(left: readonly LeftLease[]): Promise<void> {
    const { leases, outbox } = this.#store
    for (const of of left) {
      if (of.kind === 'operation') await leases.release({ id: of.id, token: of.token })
      else await outbox?.release({ ...of, leaving: true })
    }
  }

  #patchParts(): void {
    const store = this.#store
    this.#patch(store, STORE, (name, _args, value) => {
      if (name === 'begin') this.#patch((value as { session: object }).session, SESSION)
      if (name === 'open' || name === 'join') this.#patch(value as object, SESSION)
    })
    this.#patch(store.leases, LEASES, (name, [params], value) => {
      const claimed = name === 'takeOver' ? value : (value as { claimed?: unknown } | undefined)?.claimed
      const token = (claimed as { token?: string } | null | undefined)?.token
      if (token === undefined || (name !== 'claim' && name !== 'takeOver')) return
      this.#left({ kind: 'operation', id: (params as { claim: { id: string } }).claim.id, token })
    })
    this.#patch(store.batches, BATCHES, (name, _args, value) => {
      if (name === 'open') this.#patch((value as { session: object }).session, BATCH_SESSION)
    })
    this.#patch(store.outbox, OUTBOX, (name, [params], value) => {
      // A relay that was seen has a share of the shards until it leaves.
      if (name !== 'lease' && name !== 'beat') return
      const { destination, relay } = params as { destination: string; relay: string }
      const leased = name === 'lease' ? (value as { shard: number; token: number }[]) : []
      const leases = leased.map(({ shard, token }) => ({ shard, token }))
      this.#left({ kind: 'shards', destination, relay, leases })
    })
    this.#patch(store.inbox, INBOX, (name, _args, value) => {
      if (name !== 'take') return
      const { session } = value as { session: { session: object } }
      this.#patch(session, INBOX_SESSION)
      this.#patch(session.session, SESSION)
    })
    // Without boundaries, so that their statements are not taken for the handler's.
    const { schema, retention, redrives, namespaces, locks, inbox, outbox } = store
    for (const part of [schema, retention, redrives, namespaces, locks, inbox?.letters, outbox?.calls, outbox?.parked])
      this.#patch(part, {})
  }

  /** `found` sees the result of each call before the boundary after it. */
  #patch(part: object | undefined, labels: Labels, found?: (name: string, args: Args, value: unknown) => void): void {
    if (part === undefined) return
    const patches = new Patches()
    // `transaction` of the SQLite store runs the user's own work.
    for (const name of methodsOf(part).filter((method) => method !== 'transaction')) {
      const label = labels[name] as string | ((...args: Args) => string) | undefined
      patches.wrap(part as Record<string, Method>, name, (original) => (...args: Args) => {
        const passed = label === undefined ? undefined : this.#boundaries.pass(textOf(label, args))
        const result: unknown = inside.run(true, () => original(...args))
        if (!(result instanceof Promise) || (!passed && !found)) return result
        return result.then((value: unknown) => {
          found?.(name, args, value)
          passed?.()
          return value
        })
      })
    }
  }
}

function textOf(label: string | ((...args: Args) => string), args: Args): string {
  return typeof label === 'string' ? label : label(...args)
}

/** Own and inherited methods. Accessors are not read, because reading one may open something. */
function methodsOf(object: object): string[] {
  const names = new Set<string>()
  for (let at: object | null = object; at && at !== Object.prototype; at = Object.getPrototypeOf(at) as object | null) {
    for (const [name, { value }] of Object.entries(Object.getOwnPropertyDescriptors(at))) {
      if (typeof value === 'function' && name !== 'constructor') names.add(name)
    }
  }
  return [...names]
}
