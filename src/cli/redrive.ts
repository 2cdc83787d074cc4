import type { Transform } from '../dead-letter/redrive/transform.ts'
import type { Redrive, RedriveOptions, RedrivePlan, RedriveStatus } from '../dead-letter/redrive/types.ts'
import { RATE_MAX } from '../limits.ts'
import { loadModule } from './module.ts'
import { table, using, type Report, type Run, type Told } from './report.ts'
import { EXIT, UsageError, type ExitCode } from './usage.ts'
import { accountableOf, chosenFilterOf, filterOf, numberOf, redriveIdOf } from './values.ts'

const RATE = { min: 0.001, max: RATE_MAX, whole: false }
const LIMITS = { min: 1, max: 10_000, whole: true }
/** After this time without a process, the command says so. Later it ends. */
const NOBODY_MS = 5_000
const NOBODY_MS_MAX = 30_000

export const plan: Run = async (given) => {
  const filter = filterOf(given.values)
  const { force = false, reorder = false, reveal = false } = given.values
  const transform = await loadTransform(given.values.transform)
  return using(given, async ({ once }) => {
    const planned = await once.redrive.plan(filter, { force, reorder, reveal, ...(transform ? { transform } : {}) })
    const exit = planned.refusals.length > 0 ? EXIT.attention : EXIT.done
    return { text: planText(planned), data: planned, exit }
  })
}

function planText(of: RedrivePlan): string {
  const { matching, behind, applied, older, reordered, transform, refusals, warnings } = of
  return [
    `${matching} letters match, ${behind} more are parked behind them`,
    `${applied} were applied already, and are settled without running`,
    `${older} are older than the inbox remembers`,
    `${reordered} aggregates would be reordered`,
    ...(transform
      ? [`the transform changes ${transform.changed}, leaves ${transform.unchanged}, fails for ${transform.failed}`]
      : []),
    ...(transform?.samples ?? []).flatMap(({ letter, changes, error }) => [
      `  ${letter}${error === undefined ? '' : `: ${error}`}`,
      ...changes.map(({ pointer, kind, from, to }) => `    ${kind} ${pointer}${valuesText(from, to)}`),
    ]),
    ...warnings.map((line) => `warning: ${line}`),
    ...(refusals.length > 0 ? refusals.map((line) => `refused: ${line}`) : ['the redrive can run']),
  ].join('\n')
}

function valuesText(from: unknown, to: unknown): string {
  if (from === undefined && to === undefined) return ''
  const text = (value: unknown): string => (value === undefined ? '(nothing)' : JSON.stringify(value))
  return `: ${text(from)} → ${text(to)}`
}

export const run: Run = async (given, told) => {
  const { values } = given
  const filter = chosenFilterOf(values)
  const { force = false, reorder = false, detach = false, 'stop-after-canary': stops = false } = values
  const canary = numberOf(values, 'canary', { min: 0, max: 1_000_000, whole: true })
  const rate = numberOf(values, 'rate', RATE)
  const pauseAt = numberOf(values, 'pause-at', { min: 0, max: 1, whole: false })
  const transform = await loadTransform(values.transform)
  const options: RedriveOptions = {
    ...accountableOf(values),
    force,
    reorder,
    ...(canary === undefined && !stops ? {} : { canary: { letters: canary ?? 10, after: stops ? 'pause' : 'go' } }),
    ...(rate === undefined ? {} : { rate }),
    ...(pauseAt === undefined ? {} : { pauseAt }),
    ...(transform ? { transform } : {}),
  }
  return using(given, async ({ once }) => {
    const started = await once.redrive.run(filter, options)
    told.progress(`redrive ${started.id}: ${started.letters} letters of '${started.consumer}'`)
    return detach ? reportOf(started) : watched(once.redrive, started.id, told)
  })
}

export const resume: Run = async (given, told) => {
  const id = redriveIdOf(given)
  const rate = numberOf(given.values, 'rate', RATE)
  const by = accountableOf(given.values)
  const { detach = false, 'no-retry': leave = false } = given.values
  const transform = await loadTransform(given.values.transform)
  return using(given, async ({ once }) => {
    const more = { ...(rate === undefined ? {} : { rate }), ...(transform ? { transform } : {}) }
    const resumed = await once.redrive.resume(id, { ...by, retry: !leave, ...more })
    return detach ? reportOf(resumed) : watched(once.redrive, id, told)
  })
}

export const watch: Run = (given, told) => {
  const id = redriveIdOf(given)
  return using(given, ({ once }) => watched(once.redrive, id, told))
}

export const pause: Run = (given) => {
  const [id, by] = [redriveIdOf(given), accountableOf(given.values)]
  return using(given, async ({ once }) => reportOf(await once.redrive.pause(id, by), EXIT.done))
}

export const abort: Run = (given) => {
  const [id, by] = [redriveIdOf(given), accountableOf(given.values)]
  return using(given, async ({ once }) => reportOf(await once.redrive.abort(id, by), EXIT.done))
}

export const show: Run = (given) => {
  const id = redriveIdOf(given)
  return using(given, async ({ once }) => {
    const status = await once.redrive.status(id)
    if (!status) return { text: `there is no redrive ${id}`, data: null, exit: EXIT.failed }
    return reportOf(status, EXIT.done)
  })
}

export const list: Run = (given) => {
  const limit = numberOf(given.values, 'limit', LIMITS)
  return using(given, async ({ once }) => {
    const redrives = await once.redrive.list(limit ? { limit } : {})
    const head = ['redrive', 'consumer', 'state', 'letters', 'applied', 'failed', 'left', 'by', 'why']
    const rows = redrives.map((r) => [r.id, r.consumer, r.state, r.letters, r.applied + r.already, r.failed + r.blocked, r.left, r.by, r.why]) // prettier-ignore
    return { text: redrives.length === 0 ? 'no redrives' : table(head, rows), data: redrives }
  })
}

export const audit: Run = (given) => {
  const redrive = given.operand === undefined ? {} : { redrive: redriveIdOf(given) }
  const limit = numberOf(given.values, 'limit', LIMITS)
  return using(given, async ({ once }) => {
    const entries = await once.redrive.audit({ ...redrive, ...(limit ? { limit } : {}) })
    const rows = entries.map((e) => [e.at.toISOString(), e.action, e.redrive ?? '-', e.by, e.why])
    const text = entries.length === 0 ? 'nothing yet' : table(['at', 'action', 'redrive', 'by', 'why'], rows)
    return { text, data: entries }
  })
}

/** Watches until the redrive stops, or no process works on it. If the command ends earlier, the redrive continues. */
async function watched(redrive: Redrive, id: number, { progress, signal }: Told): Promise<Report> {
  let last: RedriveStatus | undefined
  let shown = ''
  let nobodyMs = 0
  let workedAt = Date.now()
  for await (const status of redrive.watch(id, { signal })) {
    last = status
    if (status.working) workedAt = Date.now()
    nobodyMs = Date.now() - workedAt
    const line = `${progressText(status)}${nobodyMs > NOBODY_MS ? `; no process runs the consumer '${status.consumer}': start one` : ''}`
    if (line !== shown) progress(line)
    shown = line
    if (nobodyMs > NOBODY_MS_MAX) break
  }
  const status = last as RedriveStatus
  if (status.state !== 'running' && status.state !== 'preparing') return reportOf(status)
  const waits = nobodyMs > NOBODY_MS_MAX
  const goes = waits ? `waits for a process that runs the consumer '${status.consumer}'` : 'continues'
  const text = `redrive ${id} ${goes}; watch it: effectively-once redrive watch ${id}, stop it: redrive pause ${id}`
  return { text, data: status, exit: waits ? EXIT.attention : EXIT.done }
}

function progressText({ letters, left, applied, already, failed, blocked, gone }: RedriveStatus): string {
  const parts = { applied, 'applied before': already, failed, blocked, 'settled elsewhere': gone }
  const known = Object.entries(parts).filter(([, n]) => n > 0)
  return `${letters - left} of ${letters}${known.length === 0 ? '' : `: ${known.map(([what, n]) => `${n} ${what}`).join(', ')}`}`
}

function reportOf(status: RedriveStatus, exit: ExitCode = exitOf(status)): Report {
  const { id, consumer, state, reason } = status
  const text = `redrive ${id} of '${consumer}' is ${state}${reason === null ? '' : ` (${reason})`}; ${progressText(status)}`
  return { text, data: status, exit }
}

function exitOf({ state, failed, blocked }: RedriveStatus): ExitCode {
  return state === 'paused' || state === 'aborted' || failed + blocked > 0 ? EXIT.attention : EXIT.done
}

/** A module of the user's own: `export const transform = (event, letter) => …`, or its default export. */
async function loadTransform(file: string | undefined): Promise<Transform | undefined> {
  if (file === undefined) return undefined
  const loaded = await loadModule(file, `--transform ${file.slice(0, 200)}`)
  const transform = loaded['transform'] ?? loaded['default']
  if (typeof transform !== 'function')
    throw new UsageError(`--transform ${file.slice(0, 200)} exports no function 'transform'`)
  return transform as Transform
}
