import { instanceOf } from '../once/instance.ts'
import { operationsOf } from '../once/operations.ts'
import type { ListedOperation, Operations } from '../once/operations-types.ts'
import { final } from '../operation/final.ts'
import type { Verdict } from '../operation/types.ts'
import { milliseconds, type Duration } from '../duration.ts'
import { OPERATION_AGE_MS_MAX } from '../limits.ts'
import type { Arguments, Values } from './arguments.ts'
import type { Opened } from './open-store.ts'
import { ago, shortened, table, using, type Run } from './report.ts'
import { EXIT, UsageError } from './usage.ts'
import { accountableOf, numberOf, oneOf, UUID } from './values.ts'

const STATES = ['running', 'abandoned', 'unknown'] as const

export const list: Run = (given) => {
  const { values } = given
  const { namespace, route, label, scope, 'older-than': olderThan } = values
  const state = oneOf('state', values.state, STATES) as (typeof STATES)[number] | undefined
  const limit = numberOf(values, 'limit', { min: 1, max: 1_000, whole: true })
  milliseconds(olderThan, 0, { option: '--older-than', min: 0, max: OPERATION_AGE_MS_MAX })
  if (scope !== undefined && namespace === undefined) throw new UsageError('--scope needs --namespace NAME')
  const named = Object.entries({ state, route, label, scope, limit, olderThan: olderThan as Duration | undefined })
  const options = Object.fromEntries(named.filter(([, value]) => value !== undefined))
  return using(given, async (opened) => {
    const found = await operationsIn(opened, values).list(options)
    const head = ['id', 'state', 'route', 'label', 'started', 'abandoned', 'attempts', 'recoverable']
    const several = new Set(found.map((o) => o.namespace)).size > 1
    const rows = found.map((o) => [...(several ? [o.namespace ?? ''] : []), ...rowOf(o)])
    return {
      text: found.length === 0 ? 'no matching operation' : table(several ? ['namespace', ...head] : head, rows),
      data: found,
    }
  })
}

export const show: Run = (given) => {
  const id = idOf(given)
  const { reveal = false } = given.values
  return using(given, async (opened) => {
    const found = await operationsIn(opened, given.values).show(id)
    if (!found) return { text: `there is no operation ${id}`, data: null, exit: EXIT.failed }
    const { input, steps, ...same } = found
    // As with dead letters, the data of clients is shown only on request.
    const shown = {
      ...same,
      steps: reveal ? steps : steps.map(({ name, state, ...step }) => ({ name, state, isUndone: 'undone' in step })),
      ...(reveal ? { input } : {}),
    }
    const lines = Object.entries({ ...same, ...(reveal ? { input: JSON.stringify(input) } : {}) })
      .filter(([, value]) => value !== null)
      .map(([name, value]) => `${name.padEnd(12)} ${value instanceof Date ? value.toISOString() : String(value)}`)
    const stepLines = steps.map(
      ({ name, state, result, ...step }) =>
        `step ${name}: ${state}${reveal && state === 'done' ? ` ${JSON.stringify(result)}` : ''}${'undone' in step ? ', undone' : ''}`,
    )
    return { text: [...lines, ...stepLines].join('\n'), data: shown }
  })
}

export const settle: Run = (given) => {
  const [id, verdict, audit] = [idOf(given), verdictOf(given.values), accountableOf(given.values)]
  return using(given, async (opened) => {
    const settled = await operationsIn(opened, given.values).settle(id, verdict, audit)
    return {
      text: settled
        ? 'settled'
        : 'not settled: the operation is not in the state unknown (--fail and --undo also end an abandoned operation), or its undo has begun',
      data: { settled },
      exit: settled ? EXIT.done : EXIT.failed,
    }
  })
}

export const release: Run = (given) => {
  const [id, audit] = [idOf(given), accountableOf(given.values)]
  return using(given, async (opened) => {
    const released = await operationsIn(opened, given.values).release(id, audit)
    return {
      text: released
        ? 'released: the next retry takes over'
        : 'not released: the operation is completed, or one of its calls has an unknown outcome. Use operations show, then operations settle',
      data: { released },
      exit: released ? EXIT.done : EXIT.failed,
    }
  })
}

/** Without a name, operations of every namespace. */
function operationsIn({ once }: Opened, { namespace }: Values): Operations<unknown, {}> {
  return operationsOf(instanceOf(once).core, () => new Map(), namespace ?? null)
}

function rowOf(o: ListedOperation): (string | number)[] {
  const now = Date.now()
  return [
    o.id,
    o.state,
    shortened(o.route, 40),
    shortened(o.label, 40),
    `${ago(now - o.startedAt.getTime())} ago`,
    o.abandonedAt === null ? '' : `${ago(now - o.abandonedAt.getTime())} ago`,
    o.attempt,
    o.recoverable ? 'yes' : 'no',
  ]
}

function verdictOf(values: Values): Verdict {
  const { step, done, rerun, undone, fail, undo, body } = values
  const given = [done, rerun, undone, fail, undo].filter((one) => one !== undefined).length
  if (given !== 1)
    throw new UsageError(
      'settle needs one of --done JSON, --rerun, --undone JSON (all with --step NAME), --fail STATUS, --undo STATUS',
    )
  const ending = fail === undefined ? 'undo' : 'fail'
  if (body !== undefined && values[ending] === undefined) throw new UsageError('--body needs --fail or --undo')
  if (values[ending] !== undefined) {
    const status = numberOf(values, ending, { min: 400, max: 499, whole: true }) as number
    const refusal = final({ status, ...(body === undefined ? {} : { body: jsonOf('body', body) }) })
    return ending === 'fail' ? { failed: refusal } : { undo: refusal }
  }
  if (step === undefined) throw new UsageError('--step NAME is needed: operations show lists the steps')
  if (undone !== undefined) return { step, undone: jsonOf('undone', undone) }
  return done === undefined ? { step, rerun: true } : { step, done: jsonOf('done', done) }
}

function jsonOf(name: string, text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    throw new UsageError(`--${name} must be JSON, such as '{"reference":"W-17"}'`)
  }
}

function idOf({ operand }: Arguments): string {
  if (operand !== undefined && UUID.test(operand)) return operand
  throw new UsageError(
    `'${String(operand).slice(0, 40)}' is not the id of an operation; try: effectively-once operations`,
  )
}
