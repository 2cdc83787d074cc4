import { RATE_MAX } from '../limits.ts'
import type { Reconciliation, ReconciliationRunOptions, ReconciliationTotals } from '../reconciliation/types.ts'
import type { Arguments } from './arguments.ts'
import { loadModule } from './module.ts'
import type { Report, Run } from './report.ts'
import { EXIT, UsageError } from './usage.ts'
import { accountableOf, numberOf } from './values.ts'

type Loaded = Reconciliation<unknown, unknown>

/** A dry run: compares and changes nothing. */
export const plan: Run = (given, { signal }) =>
  withReconciliation(given, async (loaded) => {
    const { reveal = false } = given.values
    const { examples, state, ...totals } = await loaded.plan({ signal })
    const found = totals.missing + totals.double + totals.orphaned
    // As with dead letters, the data of clients is shown only on request.
    const shown = reveal ? examples : examples.map(({ kind, key }) => ({ kind, key }))
    const lines = examples.map(
      (finding) => `  ${finding.kind} ${finding.key}${reveal ? ` ${JSON.stringify(finding)}` : ''}`,
    )
    const isDone = state === 'done'
    const said = isDone ? totalsText(totals) : `stopped before the end: ${totalsText(totals)}`
    return {
      text: [said, ...lines].join('\n'),
      data: { name: loaded.name, state, ...totals, examples: shown },
      exit: isDone && found === 0 ? EXIT.done : EXIT.attention,
    }
  })

export const run: Run = (given, { progress, signal }) => {
  const { values } = given
  const canary = numberOf(values, 'canary', { min: 0, max: 1_000_000, whole: true })
  const rate = numberOf(values, 'rate', { min: 0.001, max: RATE_MAX, whole: false })
  const pauseAt = numberOf(values, 'pause-at', { min: 0, max: 1, whole: false })
  const options: ReconciliationRunOptions = {
    ...accountableOf(values),
    ...(canary === undefined ? {} : { canary }),
    ...(values['stop-after-canary'] ? { afterCanary: 'pause' } : {}),
    ...(rate === undefined ? {} : { rate }),
    ...(pauseAt === undefined ? {} : { pauseAt }),
    signal,
    onProgress: (totals) => progress(totalsText(totals)),
  }
  return withReconciliation(given, async (loaded) => {
    const result = await loaded.run(options)
    const { state, reason, refused } = result
    const text = `reconciliation '${loaded.name}' is ${state}${reason === null ? '' : ` (${reason})`}; ${totalsText(result)}`
    const isAttended = state === 'done' && refused === 0
    return { text, data: { name: loaded.name, ...result }, exit: isAttended ? EXIT.done : EXIT.attention }
  })
}

function totalsText(of: Omit<ReconciliationTotals, 'compensated' | 'refused'> & Partial<ReconciliationTotals>): string {
  const { ours, theirs, missing, double, orphaned, compensated, refused } = of
  const found = `${ours} of ours and ${theirs} of theirs: ${missing} missing, ${double} double, ${orphaned} orphaned`
  return compensated === undefined ? found : `${found}; ${compensated} compensated, ${refused} refused`
}

/** The module makes its own instance, and exports `reconciliation({ … })`. Its `close`, if any, ends its connections. */
async function withReconciliation(given: Arguments, work: (loaded: Loaded) => Promise<Report>): Promise<Report> {
  const file = String(given.operand).slice(0, 200)
  const module = await loadModule(String(given.operand), file)
  const loaded = (module['reconciliation'] ?? module['default']) as Partial<Loaded> | undefined
  if (typeof loaded?.plan !== 'function' || typeof loaded.run !== 'function' || typeof loaded.close !== 'function')
    throw new UsageError(`${file} exports no reconciliation({ … }), as its default or by that name`)
  try {
    return await work(loaded as Loaded)
  } finally {
    await loaded.close()
    const { close } = module
    if (typeof close === 'function') await (close as () => unknown)()
  }
}
