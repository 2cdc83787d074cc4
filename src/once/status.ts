import { isOnceError } from '../errors.ts'
import type { Core } from '../operation/core.ts'
import { withinMs } from '../operation/deadline.ts'
import { partsOf } from '../store/namespaced/names.ts'
import { required } from '../store/lacking.ts'
import type { StoredStatus } from '../store/status.ts'

const NIL = '00000000-0000-0000-0000-000000000000'
/** A readiness probe must answer before its caller gives up. */
const READY_MS = 2_000
const ABANDONED_MS_MAX: number = 10 * 60_000
const UNRELAYED_MS_MAX = 60_000
const LAG_MS_MAX: number = 5 * 60_000

/** The data of this instance's namespace. Counts stop at 10,000. */
export interface Status extends StoredStatus {
  /** Parked dead letters of all consumers. */
  readonly deadLetters: { readonly parked: number; readonly oldestMs: number | null }
}

export interface Health {
  readonly healthy: boolean
  /** One sentence for each problem, for people. */
  readonly problems: readonly string[]
}

export interface Readiness {
  readonly ready: boolean
  readonly reasons: readonly string[]
}

export async function statusOf<Tx>(core: Core<Tx>): Promise<Status> {
  return statusIn(core, core.settings.namespace, await core.namespace.look())
}

/** The status of one namespace. If `name` is null, operations of every namespace are counted. */
export async function statusIn<Tx>({ store }: Core<Tx>, name: string | null, no: number): Promise<Status> {
  const found = await required(store, store.status, 'status').call(store, { namespace: name, no })
  const consumers = found.consumers.map((one) => ({ ...one, name: partsOf(one.name).name }))
  return {
    ...found,
    destinations: found.destinations.map((one) => ({ ...one, name: partsOf(one.name).name })),
    consumers,
    deadLetters: {
      parked: consumers.reduce((sum, { letters }) => sum + letters, 0),
      oldestMs: oldest(consumers.map(({ oldestLetterMs }) => oldestLetterMs)),
    },
  }
}

export function oldest(ages: readonly (number | null)[]): number | null {
  const known = ages.filter((age) => age !== null)
  return known.length === 0 ? null : Math.max(...known)
}

export async function healthOf<Tx>(core: Core<Tx>): Promise<Health> {
  const problems = problemsIn(await statusOf(core))
  return { healthy: problems.length === 0, problems }
}

export function problemsIn({ operations, destinations, unsent, deadLetters }: Status): readonly string[] {
  const problems: string[] = []
  if (operations.unknown > 0) problems.push(`operations with an unknown outcome: ${operations.unknown}`)
  if ((operations.oldestAbandonedMs ?? 0) > ABANDONED_MS_MAX)
    problems.push(`abandoned operations, one for over 10 minutes: ${operations.abandoned}`)
  for (const { name, oldestMs, relays, parked, retrying } of destinations) {
    const late = oldestMs ?? 0
    // Events that failed no longer count as waiting, but nobody tries them again without a relay.
    if (relays === 0 && (late > UNRELAYED_MS_MAX || retrying > 0))
      problems.push(`events wait for '${name}', and no relay runs`)
    else if (late > LAG_MS_MAX) problems.push(`events have waited for '${name}' for over 5 minutes`)
    if (parked > 0) problems.push(`parked events for '${name}': ${parked}`)
  }
  if ((unsent.oldestMs ?? 0) > UNRELAYED_MS_MAX) problems.push('events wait, and no relay has ever run')
  if (deadLetters.parked > 0) problems.push(`dead letters: ${deadLetters.parked}`)
  return problems
}

/** Whether the instance is ready. Never rejects, because a probe calls it. */
export async function readinessOf<Tx>({ store, clock, closing }: Core<Tx>): Promise<Readiness> {
  if (closing) return { ready: false, reasons: ['the instance is closed'] }
  try {
    const { schema } = store
    await withinMs(clock, READY_MS, store.check?.() ?? Promise.resolve())
    const version = await withinMs(clock, READY_MS, schema ? schema.version() : store.read({ id: NIL }).then(() => 0))
    const latest = schema?.latest
    if (latest !== undefined && version < latest)
      return { ready: false, reasons: [`the schema is at version ${version}, and this code needs ${latest}`] }
    const writable = await withinMs(clock, READY_MS, schema?.writable?.() ?? Promise.resolve(true))
    return writable ? { ready: true, reasons: [] } : { ready: false, reasons: ['the database accepts no writes'] }
  } catch (error) {
    if (isOnceError(error) && error.code === 'ONCE_UNSUPPORTED') return { ready: false, reasons: [error.message] }
    const code = isOnceError(error) ? error.code : 'ONCE_STORE_UNAVAILABLE'
    return { ready: false, reasons: [`the database did not answer: ${code}`] }
  }
}
