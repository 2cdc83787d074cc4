import { latestOf, versionFinding } from './doctor.ts'
import { inspect } from './inspect.ts'
import { ago, table, using, type Run } from './report.ts'
import { EXIT } from './usage.ts'

export const status: Run = (given) =>
  using(given, async (opened) => {
    const { where, store } = opened
    const version = await store.schema.version()
    const latest = latestOf(opened.schema)
    if (version !== latest) {
      const { line, mend } = versionFinding(version, latest, where)
      return { text: `${line}. Run: ${mend ?? ''}`, data: { where, version, latest }, exit: EXIT.attention }
    }
    const facts = await inspect(opened)
    const { inProgress, lapsed, unknown, destinations, unsent, consumers, letters, redrives } = facts
    const oldestAt = letters.oldestAt === null ? null : Date.now() - letters.oldestAt
    const text = [
      `${where}, version ${version}`,
      `operations     ${inProgress} in progress, ${lapsed} abandoned, ${unknown} unknown`,
      `dead letters   ${letters.total} parked${letters.total > 0 ? `, the oldest for ${ago(oldestAt)}` : ''}`,
      destinations.length === 0
        ? `events         ${unsent.events} wait, no destination yet`
        : `\n${table(
            ['destination', 'waiting', 'oldest', 'relays', 'parked'],
            destinations.map((d) => [
              d.name,
              d.waiting,
              d.oldestMs === null ? '' : ago(d.oldestMs),
              d.relays,
              d.parked,
            ]),
          )}`,
      ...(consumers.length === 0
        ? []
        : [`\n${table(['consumer', 'last seen', 'remembers'], consumers.map((c) => [c.name, `${ago(c.seenAgoMs)} ago`, ago(c.rememberMs)]))}`]), // prettier-ignore
      ...(redrives.length === 0
        ? []
        : [`\n${table(['redrive', 'consumer', 'state', 'applied', 'failed', 'left'], redrives.map((r) => [r.redrive, r.consumer, r.state, r.counts.applied, r.counts.failed, r.counts.pending]))}`]), // prettier-ignore
    ].join('\n')
    return { text, data: { where, version, latest, ...facts } }
  })
