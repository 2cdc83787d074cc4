import { checkAccountable } from '../dead-letter/accountable.ts'
import { milliseconds } from '../duration.ts'
import { onceError } from '../errors.ts'
import { fingerprintInput } from '../key/fingerprint.ts'
import { identity } from '../key/identity.ts'
import { checkScope } from '../key/parse-key.ts'
import { isErased } from '../lifecycle/record.ts'
import { OPERATION_AGE_MS_MAX, RECOVER_LIMIT_DEFAULT } from '../limits.ts'
import { invalid, oneOf, refuseUnknown, wholeNumber } from '../options.ts'
import type { Core } from '../operation/core.ts'
import { notesOf } from '../operation/notes.ts'
import { recoverLapsed, type Recoverer } from '../operation/recover.ts'
import { requestOf } from '../operation/request.ts'
import { storedVerdict } from '../operation/stored-verdict.ts'
import { recordedRefusal, refusalName, withUndos } from '../operation/undo-record.ts'
import type { RecoverHandlers } from '../operation/types.ts'
import type { Events } from '../outbox/event.ts'
import { dropAnswers } from '../store/answer-cache.ts'
import { required } from '../store/lacking.ts'
import type { Claim, Leases, OperationFilter, StoredOperation } from '../store/store.ts'
import type {
  ListedOperation,
  OperationAudit,
  OperationListOptions,
  OperationIdentity,
  Operations,
  RecordedStepsOptions,
  ShownOperation,
} from './operations-types.ts'
import { recordedSteps } from './recorded-steps.ts'
import { UUID } from '../platform/uuid.ts'

const LIST_DEFAULT = 100
const LIST_MAX = 1_000
const LIST_OPTIONS = new Set(['state', 'route', 'label', 'scope', 'olderThan', 'limit'])
const AUDIT_OPTIONS = new Set(['why', 'by'])
const NOT_READ = { record: null, answer: null }
const STATES = ['running', 'abandoned', 'unknown'] as const

/**
 * Leased operations, for operators. `namespace` null shows those of every service that shares the database.
 * `recoverers` are the handlers of `recover`, ready to run.
 */
export function operationsOf<Tx, E extends Events>(
  core: Core<Tx>,
  recoverers: (handlers: RecoverHandlers<Tx, E>) => ReadonlyMap<string, Recoverer>,
  namespace: string | null = core.settings.namespace,
): Operations<Tx, E> {
  const { store } = core
  const { leases } = store
  const ours = async (id: string): Promise<ShownRecord | null> => {
    const found = await required(store, leases.show, 'operations').call(leases, { id })
    const owner = found?.operation.namespace ?? namespace
    return namespace === null || owner === namespace ? found : null
  }
  return {
    async list(options = {}) {
      const filter = filterOf(namespace, options)
      return (await required(store, leases.list, 'operations').call(leases, filter)).map(listed)
    },
    async show(name) {
      const { id } = claimOf(core, name)
      const found = await ours(id)
      if (!found) return null
      const { operation, input } = found
      const steps = await leases.steps({ id, life: operation.life })
      // Read after the steps: if an erasure removed them, the record says so.
      const { record, answer } = operation.state === 'completed' ? await store.read({ id }) : NOT_READ
      return {
        ...listed(operation),
        steps: withUndos(steps).map(shownStep),
        status: answer?.status ?? null,
        erased: record !== null && isErased(record),
        refusal: recordedRefusal(steps.find(({ name: step }) => step === refusalName))?.answer.status ?? null,
        input: input === null ? null : (JSON.parse(input) as { input?: unknown }).input,
      }
    },
    steps(options) {
      const of = (options as RecordedStepsOptions | undefined)?.operation
      return recordedSteps(core, namespace, options, of === undefined ? null : claimOf(core, of).id)
    },
    async settle(name, verdict, audit) {
      const stored = storedVerdict(verdict)
      const claim = claimOf(core, name)
      const found = leases.show ? await ours(claim.id) : null
      if (typeof name === 'string' && !found) return false
      const step = 'step' in stored ? { step: stored.step } : {}
      const steps = found ? await leases.steps({ id: claim.id, life: found.operation.life }) : []
      const isUndo = 'undo' in verdict
      if (isUndo && steps.some((recorded) => recorded.name === refusalName)) return false
      if (found?.operation.state === 'unknown' && 'step' in stored && !isUndo) {
        if ('undone' in verdict) checkDone(verdict.step, steps)
        else checkStep(stored.step, steps)
      }
      await write(core, 'settle', { id: claim.id, verdict: isUndo ? 'undo' : stored.kind, ...step }, audit)
      if (isUndo) await suspendAbandoned(core, claim)
      const settled = await leases.settle({ claim, verdict: stored })
      if (settled && core.shared) await dropAnswers(core.shared, [claim.id])
      return settled
    },
    async release(name, audit) {
      const evict = required(store, leases.evict, 'operations')
      const claim = claimOf(core, name)
      if (!(await ours(claim.id))) return false
      await write(core, 'release', { id: claim.id }, audit)
      return evict.call(leases, claim)
    },
    async recover(handlers = {}, { limit = RECOVER_LIMIT_DEFAULT } = {}) {
      if (core.closing) throw onceError('ONCE_CLOSED')
      return recoverLapsed(core, new Map([...core.recoverers, ...recoverers(handlers)]), limit)
    },
  }
}

/** The verdict to undo also ends an abandoned operation. The token fences an attempt that takes over meanwhile. */
async function suspendAbandoned<Tx>({ store }: Core<Tx>, { id }: Claim): Promise<void> {
  const { record } = await store.read({ id })
  if (record?.state !== 'inProgress' || (record.leaseLeftMs ?? 0) > 0) return
  await store.leases.suspend({ id, token: record.token })
}

function shownStep({ result, undone, ...step }: ReturnType<typeof withUndos>[number]): ShownOperation['steps'][number] {
  const shown = { ...step, result: result === null ? null : (JSON.parse(result) as unknown) }
  return undone === undefined ? shown : { ...shown, undone: JSON.parse(undone) as unknown }
}

/** The verdict on another step would decide nothing: the next attempt would find the same call again. */
function checkStep(given: string, steps: readonly { readonly name: string; readonly state: string }[]): void {
  const open = steps.filter(({ state }) => state === 'started').map(({ name }) => name)
  if (open.length === 0 || open.includes(given)) return
  const names = open.map((name) => `'${name}'`).join(', ')
  throw invalid(`the call with an unknown outcome is in step ${names}, not in '${given}'`)
}

/** The word about a mistyped step would be recorded, and the next attempt would undo the step once more. */
function checkDone(given: string, steps: readonly { readonly name: string; readonly state: string }[]): void {
  if (steps.some(({ name, state }) => name === given && state === 'done')) return
  throw invalid(`the operation has no finished step '${given}', so it cannot be undone`)
}

function filterOf(namespace: string | null, options: OperationListOptions): OperationFilter {
  if (typeof options !== 'object' || options === null) throw invalid('operations.list() takes { state, route, … }')
  refuseUnknown(options, LIST_OPTIONS, 'operations.list()')
  const { state, route, label, scope, olderThan, limit = LIST_DEFAULT } = options
  for (const [name, value] of Object.entries({ route, label, scope })) {
    if (value !== undefined && (typeof value !== 'string' || value === '')) throw invalid(`${name} must be a string`)
  }
  wholeNumber('limit', limit, LIST_MAX)
  if (scope !== undefined && namespace === null)
    throw invalid('scope needs a namespace, because scopes are stored as hashes')
  return {
    namespace,
    state: oneOf<(typeof STATES)[number] | null>('state', state, STATES, null),
    route: route === undefined ? null : notesOf(route, null).route,
    label: label === undefined ? null : notesOf('', label).label,
    scope:
      scope === undefined ? null : identity({ namespace: namespace ?? '', scope: checkScope(scope), key: '' }).scope,
    olderThanMs: milliseconds(olderThan, 0, { option: 'olderThan', min: 0, max: OPERATION_AGE_MS_MAX }),
    limit,
  }
}

type ShownRecord = NonNullable<Awaited<ReturnType<Required<Leases>['show']>>>

/** Any input matches, because an operator names the operation, not the request. */
function claimOf<Tx>({ settings }: Core<Tx>, name: OperationIdentity): Claim {
  const byId = typeof name === 'string'
  if (byId ? !UUID.test(name) : typeof name !== 'object' || name === null)
    throw invalid('an operation is named by its id, or by { scope, key }')
  const { scope, key } = byId ? { scope: 'global', key: name } : name
  const fingerprint = fingerprintInput(null)
  const { claim } = requestOf(settings, { scope, key, fingerprint, route: 'operator', at: 0, rerunnable: false })
  if (!byId) return claim
  const { replayForMs, goneForMs } = claim
  const none = { scope: '', lock: '', fingerprintLock: '', fingerprint, fingerprintVersion: claim.fingerprintVersion }
  return { ...none, id: name, replayForMs, goneForMs }
}

/** Dates come from the database's clock: a life is named after the microsecond in which it began. */
function listed({ ageMs, leaseLeftMs, recover, life, ...same }: StoredOperation): ListedOperation {
  const startedAt = Number(life) / 1000
  return {
    ...same,
    startedAt: new Date(startedAt),
    abandonedAt: leaseLeftMs === null || leaseLeftMs > 0 ? null : new Date(startedAt + ageMs + leaseLeftMs),
    recoverable: recover !== null,
  }
}

/** The audit entry comes first: an entry without its change is harmless. */
async function write<Tx>(
  { namespace, settings, store }: Core<Tx>,
  action: 'settle' | 'release',
  detail: object,
  audit: OperationAudit | undefined,
): Promise<void> {
  if (audit === undefined) return
  refuseUnknown(audit, AUDIT_OPTIONS, `operations.${action}()`)
  const { why, by = settings.namespace } = audit
  if (why === undefined) return
  const redrives = required(store, namespace.redrives, 'redrive')
  await redrives.write({
    ...checkAccountable({ by, why }),
    action: `operation ${action}`,
    redrive: null,
    detail: JSON.stringify(detail),
  })
}
