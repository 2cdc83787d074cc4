import { checkAccountable } from '../dead-letter/accountable.ts'
import { onceError } from '../errors.ts'
import { identity } from '../key/identity.ts'
import { checkKey, checkScope } from '../key/parse-key.ts'
import type { Core } from '../operation/core.ts'
import { invalid, refuseUnknown } from '../options.ts'
import { shardOf } from '../outbox/publisher.ts'
import { sleep } from '../platform/clock.ts'
import { isStorable } from '../platform/storable.ts'
import type { Aggregate, ErasedOperations, Erasure } from '../store/erasure.ts'
import { required } from '../store/lacking.ts'
import { renewIfUsed } from '../tier/epoch.ts'
import type { Erased, EraseOptions } from './erase-types.ts'

export type { Erased, EraseOptions } from './erase-types.ts'

const OPTIONS = new Set(['scope', 'key', 'aggregates', 'dryRun', 'why', 'by', 'signal'])
/** Rows in each transaction. */
const BATCH = 1_000
/** The most entries of each list. */
const LISTED_MAX = 1_000
/** How long to wait for transactions that may have written a record. */
const WAIT_MS = 10_000
const POLL_MS = 50
/** How often an operation is tried whose record another transaction holds. A retry holds it only for a moment. */
const BUSY_TRIES = 3

type Listed = Erased['refused']

interface Refused {
  readonly operations: Listed['operations'][number][]
  readonly events: Listed['events'][number][]
  readonly letters: Listed['letters'][number][]
  transactions: number
}

interface Totals {
  operations: number
  events: number
  letters: number
  discarded: number
}

/** One erasure: its options, checked and hashed, and what it did so far. */
interface Run<Tx> {
  readonly core: Core<Tx>
  readonly erasure: Erasure
  readonly scope: string
  readonly id: string | null
  readonly tenant: string | null
  readonly aggregates: readonly Aggregate[]
  readonly part: { readonly limit: number; readonly dryRun: boolean }
  readonly signal: AbortSignal | undefined
  readonly totals: Totals
  readonly refused: Refused
  /** Operations were found whose answers a shared cache may have. */
  found: boolean
  /** The cache of this process has confirmed every removal so far. */
  removed: boolean
}

/** Erases in small transactions. What a crash cuts off is erased by the next call. */
export async function eraseNow<Tx>(core: Core<Tx>, options: EraseOptions): Promise<Erased> {
  const run = runOf(core, options)
  const { totals, refused, part } = run
  const { why = 'not said', by = core.settings.namespace } = options
  const accountable = checkAccountable({ by, why })
  const write = async (action: string, detail: object): Promise<void> => {
    if (part.dryRun) return
    const redrives = required(core.store, core.namespace.redrives, 'erase')
    await redrives.write({ ...accountable, action, redrive: null, detail: JSON.stringify(detail) })
  }
  // Hashes only: the audit is kept, and must not have the data of the person.
  const asked = { scope: run.scope, operation: run.id, aggregates: run.aggregates.map(({ type }) => type) }
  await write('erase', asked)
  let copiesExpire = false
  try {
    await eraseOperations(run)
    copiesExpire = await endCached(run)
    await eraseEvents(run)
    await eraseLetters(run)
  } finally {
    if (!part.dryRun) core.cache.clear()
  }
  const { operations, events, letters, transactions } = refused
  const left = { operations: operations.length, events: events.length, letters: letters.length, transactions }
  await write('erased', { ...asked, ...totals, left })
  const finished = Object.values(left).every((count) => count === 0)
  return { ...totals, finished, copiesExpire, refused }
}

function runOf<Tx>(core: Core<Tx>, options: EraseOptions): Run<Tx> {
  const erasure = required(core.store, core.store.erasure, 'erase')
  if (typeof options !== 'object' || options === null) throw invalid('erase() needs { scope }')
  refuseUnknown(options, OPTIONS, 'erase()')
  if (core.closing) throw onceError('ONCE_CLOSED')
  const { key, aggregates = [], dryRun = false, signal } = options
  const scope = checkScope(options.scope)
  const ids = identity({ namespace: core.settings.namespace, scope, key: key === undefined ? '' : checkKey(key) })
  if (!Array.isArray(aggregates) || !aggregates.every(isAggregate))
    throw invalid('aggregates must be a list of { type, id }')
  if (typeof dryRun !== 'boolean') throw invalid('dryRun must be true or false')
  return {
    core,
    erasure,
    scope: ids.scope,
    id: key === undefined ? null : ids.id,
    tenant: key === undefined ? scope : null,
    aggregates,
    part: { limit: BATCH, dryRun },
    signal,
    totals: { operations: 0, events: 0, letters: 0, discarded: 0 },
    refused: { operations: [], events: [], letters: [], transactions: 0 },
    found: false,
    removed: core.shared !== null,
  }
}

function isAggregate(of: unknown): of is Aggregate {
  if (typeof of !== 'object' || of === null || Object.keys(of).length !== 2) return false
  const { type, id } = of as Partial<Aggregate>
  return [type, id].every((text) => typeof text === 'string' && text !== '' && isStorable(text))
}

async function eraseOperations<Tx>(run: Run<Tx>): Promise<void> {
  const { core, scope, id, refused } = run
  const { leases } = core.store
  refused.transactions = await openWriters(run)
  // Listed first: an operation that completes from now on was running.
  if (id === null) {
    const any = { namespace: null, state: null, route: null, label: null, olderThanMs: 0, limit: LISTED_MAX }
    refused.operations.push(...((await leases.list?.({ ...any, scope })) ?? []).map(named))
  } else {
    const shown = await leases.show?.({ id })
    if (shown && shown.operation.state !== 'completed') refused.operations.push(named(shown.operation))
  }
  let after: string | null = null
  do {
    const { busy, next }: ErasedOperations = await erasePart(run, id, after)
    const held = await eraseHeld(run, busy)
    add(
      refused.operations,
      held.map((one) => ({ id: one, state: 'running' as const })),
    )
    after = next
  } while (after !== null)
}

async function erasePart<Tx>(run: Run<Tx>, id: string | null, after: string | null): Promise<ErasedOperations> {
  const { core, erasure, scope, part, totals } = run
  goOn(run)
  const erased = await erasure.operations({ ...part, scope, id, after })
  totals.operations += erased.erased
  if (erased.ids.length > 0) run.found = true
  // After the first removal that the cache did not confirm, the others would only wait for it.
  if (!part.dryRun && erased.ids.length > 0 && run.removed)
    run.removed = (await core.shared?.remove(erased.ids)) ?? false
  return erased
}

/** Tries operations again whose records other transactions held. Returns those that are still held. */
async function eraseHeld<Tx>(run: Run<Tx>, busy: readonly string[]): Promise<readonly string[]> {
  let held = busy
  for (let tries = 0; held.length > 0 && tries < BUSY_TRIES; tries++) {
    await sleep(run.core.clock, POLL_MS)
    const still: string[] = []
    for (const one of held) still.push(...(await erasePart(run, one, null)).busy)
    held = still
  }
  return held
}

/**
 * Before the erasure reports: a shared cache must not answer for the operations any more. The command line, and a
 * process without the tier, do not know the cache of the others: a new epoch makes its entries worthless. That includes
 * operations that an earlier call erased, because that call may have died here. Returns whether copies stay until they
 * expire.
 */
async function endCached<Tx>({ core, part, found, removed }: Run<Tx>): Promise<boolean> {
  const { store, transactions, shared, clock } = core
  if (part.dryRun || !found || removed) return false
  if (shared) {
    await shared.renew()
    return true
  }
  if (!transactions) return false
  return renewIfUsed(
    { read: (of) => store.read(of), outbox: store.outbox, refuse: (of) => transactions.refuse(of) },
    clock,
  )
}

/**
 * Waits for transactions that were open at the start, because nobody sees their records yet. Returns how many are still
 * open.
 */
async function openWriters<Tx>(run: Run<Tx>): Promise<number> {
  const { erasure, part } = run
  const { clock } = run.core
  let open = new Set(await erasure.writers?.())
  const until = clock.now() + (part.dryRun ? 0 : WAIT_MS)
  while (open.size > 0 && clock.now() < until && !run.signal?.aborted) {
    await sleep(clock, POLL_MS)
    const now = new Set(await erasure.writers?.())
    open = new Set([...open].filter((writer) => now.has(writer)))
  }
  return open.size
}

async function eraseEvents<Tx>(run: Run<Tx>): Promise<void> {
  const { core, erasure, aggregates, part, totals, refused } = run
  if (aggregates.length === 0) return
  const namespace = await core.namespace.look()
  if (namespace < 0) return
  const shards = new Map<number, Aggregate[]>()
  for (const of of aggregates) {
    const shard = shardOf(of.id, namespace)
    shards.set(shard, [...(shards.get(shard) ?? []), of])
  }
  for (const [shard, mine] of shards) {
    let after: number | null = 0
    while (after !== null) {
      goOn(run)
      const { erased, pending, next }: Awaited<ReturnType<Erasure['events']>> = await erasure.events({
        ...part,
        shard,
        aggregates: mine,
        after,
      })
      totals.events += erased
      add(refused.events, pending)
      after = next
    }
  }
}

async function eraseLetters<Tx>(run: Run<Tx>): Promise<void> {
  const { core, erasure, tenant, aggregates, part, totals, refused } = run
  if (tenant === null && aggregates.length === 0) return
  const namespace = await core.namespace.look()
  let after: number | null = namespace >= 0 ? 0 : null
  while (after !== null) {
    goOn(run)
    const { erased, discarded, redriving, next }: Awaited<ReturnType<Erasure['letters']>> = await erasure.letters({
      ...part,
      namespace,
      tenant,
      aggregates,
      after,
    })
    totals.letters += erased
    totals.discarded += discarded
    add(refused.letters, redriving)
    after = next
  }
}

function goOn<Tx>({ signal }: Run<Tx>): void {
  signal?.throwIfAborted()
}

/** Memory stays bounded, however much is refused. */
function add<T>(list: T[], more: readonly T[]): void {
  list.push(...more.slice(0, LISTED_MAX - list.length))
}

function named({ id, state }: Listed['operations'][number]): Listed['operations'][number] {
  return { id, state }
}
