import { latestOf, outdated } from './doctor.ts'
import { inspect } from './inspect.ts'
import { ago, shortened, table, using, type Run } from './report.ts'
import { EXIT } from './usage.ts'

export const status: Run = (given) =>
  using(given, async (opened) => {
    const { where, store } = opened
    const version = await store.schema.version()
    const latest = latestOf(opened.schema)
    if (version !== latest) {
      const { line, fix } = await outdated(opened, version, latest)
      return { text: `${line}. Run: ${fix ?? ''}`, data: { where, version, latest }, exit: EXIT.failed }
    }
    const facts = await inspect(opened)
    const { namespaces, operations, destinations, unsent, consumers, deadLetters, redrives } = facts
    // Whose it is matters where there are several.
    const several = namespaces.length > 1
    const head = (...columns: string[]): string[] => (several ? ['namespace', ...columns] : columns)
    const row = (of: { readonly namespace: string | null }, ...cells: (string | number)[]): (string | number)[] =>
      several ? [of.namespace ?? '', ...cells] : cells
    const text = [
      `${where}, version ${version}`,
      `operations     ${operations.running} in progress, ${operations.abandoned} abandoned, ${operations.unknown} unknown`,
      `dead letters   ${deadLetters.parked} parked${deadLetters.parked > 0 ? `, the oldest for ${ago(deadLetters.oldestMs)}` : ''}`,
      ...(unsent.events > 0 || destinations.length === 0
        ? [`events         ${unsent.events} wait, no destination yet`]
        : []),
      ...(several
        ? section(['namespace', 'dead letters', 'unsent events'], namespaces.map((n) => [n.name ?? '', n.letters, n.unsent.events])) // prettier-ignore
        : []),
      ...section(
        head('destination', 'waiting', 'oldest', 'relays', 'parked', 'retried', 'error'),
        destinations.map((d) => row(d, d.name, d.waiting, d.oldestMs === null ? '' : ago(d.oldestMs), d.relays, d.parked, d.retrying, shortened(d.error, 60))), // prettier-ignore
      ),
      ...section(
        head('consumer', 'last seen', 'remembers', 'retried', 'error'),
        consumers.map((c) => row(c, c.name, `${ago(c.seenAgoMs)} ago`, ago(c.rememberMs), c.retrying, shortened(c.error, 60))), // prettier-ignore
      ),
      ...section(
        head('redrive', 'consumer', 'state', 'applied', 'failed', 'left'),
        redrives.map((r) => row(r, r.redrive, r.consumer, r.state, r.counts.applied, r.counts.failed, r.counts.pending)), // prettier-ignore
      ),
    ].join('\n')
    return { text, data: { where, version, latest, ...facts } }
  })

function section(head: readonly string[], rows: readonly (readonly (string | number)[])[]): string[] {
  return rows.length === 0 ? [] : [`\n${table(head, rows)}`]
}
