import { STEP_NAME_BYTES_MAX } from '../limits.ts'
import type { Core } from '../operation/core.ts'
import { RESERVED_PREFIX, undoName } from '../operation/undo-record.ts'
import { invalid, refuseUnknown } from '../options.ts'
import { isDate, isName } from '../platform/storable.ts'
import { UUID } from '../platform/uuid.ts'
import { required } from '../store/lacking.ts'
import type { FoundStep, StepFilter } from '../store/store.ts'
import type { RecordedStep, RecordedStepsOptions } from './operations-types.ts'

const OPTIONS = new Set(['name', 'since', 'until', 'after', 'operation'])
const PAGE_STEPS = 500
const PAGE_BYTES: number = 4 * 1024 * 1024
const LIFE_MIN = '-1'
const LIFE_MAX = '9223372036854775807'
const ID_MIN = '00000000-0000-0000-0000-000000000000'

/** Reads recorded steps page by page. A page is one statement. `id` is the identity of `options.operation`. */
export function recordedSteps<Tx>(
  { store }: Pick<Core<Tx>, 'store'>,
  namespace: string | null,
  options: RecordedStepsOptions,
  id: string | null,
): AsyncIterable<RecordedStep> {
  const { leases } = store
  const find = required(store, leases.findSteps, 'steps')
  const { name, since, until, after } = checked(options)
  const from =
    id === null ? { id: after ?? ID_MIN, life: after === undefined ? LIFE_MIN : LIFE_MAX } : { id, life: LIFE_MIN }
  const filter: Omit<StepFilter, 'after'> = {
    namespace,
    name,
    undo: undoName(name),
    since: micros(since),
    until: until === undefined ? LIFE_MAX : micros(until),
    limit: PAGE_STEPS,
    bytes: PAGE_BYTES,
  }
  return (async function* () {
    for (let last = from; ;) {
      const page = await find.call(leases, { ...filter, after: last })
      for (const step of page) {
        if (id !== null && step.id !== id) return
        yield recorded(name, step)
        last = step
      }
      if (page.length === 0) return
    }
  })()
}

function checked(options: RecordedStepsOptions): RecordedStepsOptions {
  if (typeof options !== 'object' || options === null) throw invalid('operations.steps() takes { name, since, … }')
  refuseUnknown(options, OPTIONS, 'operations.steps()')
  const { name, since, until, after } = options
  if (!isName(name, STEP_NAME_BYTES_MAX) || name.startsWith(RESERVED_PREFIX))
    throw invalid(`name must be the name of a step, of 1 to ${STEP_NAME_BYTES_MAX} bytes`)
  for (const [option, value] of Object.entries({ since, until })) {
    if ((value !== undefined || option === 'since') && !isDate(value)) throw invalid(`${option} must be a Date`)
  }
  if (after !== undefined && (typeof after !== 'string' || !UUID.test(after)))
    throw invalid('after must be the id of an operation')
  return options
}

/** A life is named after the microsecond in which it began. */
function micros(time: Date): string {
  return String(BigInt(time.getTime()) * 1_000n)
}

function recorded(name: string, { id, life, route, label, state, result, undone }: FoundStep): RecordedStep {
  const startedAt = new Date(Number(life) / 1000).toISOString()
  const step = { id, name, state, result: result === null ? null : (JSON.parse(result) as unknown) }
  const notes = { route, label, startedAt }
  return { ...step, ...(undone === null ? {} : { undone: JSON.parse(undone) as unknown }), ...notes }
}
