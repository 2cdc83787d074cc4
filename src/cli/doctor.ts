import { SCHEMA_VERSION } from '../store/postgres/migrations.ts'
import { MIGRATIONS as SQLITE_MIGRATIONS } from '../store/sqlite/migrations.ts'
import type { Facts, ServerFacts } from './facts.ts'
import { inspect, seenNamespaces } from './inspect.ts'
import type { Opened } from './open-store.ts'
import { ago, counted, shortened, using, type Run } from './report.ts'
import { EXIT } from './usage.ts'

/**
 * 'problem': something does not work, or will not. 'warning': an operator should look. 'fine': checked, and in order.
 */
export interface Finding {
  readonly level: 'problem' | 'warning' | 'fine'
  /** For programs: an error code of this package, if there is one. */
  readonly code: string
  readonly line: string
  /** The command or the action that solves it. */
  readonly fix?: string
}

const RELAY_PATIENCE_MS = 10_000
const CONSUMER_SEEN_MS = 60_000
const LETTERS_OLD_MS = 7 * 86_400_000
const REMEMBER_MS_MIN = 7 * 86_400_000
const REWOUND_SHOWN = 3
const SKEW_MS_MAX = 1_000
const LOCKS_HELD_SHARE = 0.5
/** Each request of a batch takes locks, and a batch has up to 256 requests. */
const LOCK_BUDGET_MIN = 4_096

export const doctor: Run = (given) =>
  using(given, async (opened) => {
    const version = await opened.store.schema.version()
    const latest = latestOf(opened.schema)
    const findings = version === latest ? findingsOf(await inspect(opened)) : [await outdated(opened, version, latest)]
    const wrong = findings.filter(({ level }) => level !== 'fine')
    const text = [
      ...findings.map(({ level, line, fix }) => `${MARKS[level]} ${line}${fix ? `\n         → ${fix}` : ''}`),
      '',
      wrong.length === 0 ? `${opened.where}: nothing is wrong` : `${opened.where}: ${tally(findings)}`,
    ].join('\n')
    const problems = findings.some(({ level }) => level === 'problem')
    return {
      text,
      data: { where: opened.where, version, latest, findings },
      exit: problems ? EXIT.attention : EXIT.done,
    }
  })

const MARKS = { problem: 'PROBLEM ', warning: 'warning ', fine: 'ok      ' } as const

export function latestOf(schema: string | null): number {
  return schema === null ? (SQLITE_MIGRATIONS.at(-1)?.version ?? 0) : SCHEMA_VERSION
}

function tally(findings: readonly Finding[]): string {
  const of = (wanted: Finding['level']): number => findings.filter(({ level }) => level === wanted).length
  return `${counted(of('problem'), 'problem')}, ${counted(of('warning'), 'warning')}`
}

/** Reports early what `migrate` would refuse: with several namespaces, the owner of the old rows is not known. */
export async function outdated(opened: Opened, version: number, latest: number): Promise<Finding> {
  const finding = versionFinding(version, latest, opened.where)
  if (version === 0 || version >= latest) return finding
  const seen = await seenNamespaces(opened)
  if (seen.length < 2) return finding
  const line = `${finding.line}, and has events of ${seen.join(', ')}`
  return { ...finding, line, fix: `${finding.fix} --adopt NAME; NAME is the owner of the other rows` }
}

export function versionFinding(version: number, latest: number, where: string): Finding {
  const migrate = 'npx effectively-once migrate'
  if (version === 0)
    return { level: 'problem', code: 'ONCE_NOT_MIGRATED', line: `${where} was never migrated`, fix: migrate }
  if (version < latest) {
    const line = `${where} is at version ${version}, but this code needs ${latest}`
    return { level: 'problem', code: 'ONCE_NOT_MIGRATED', line, fix: migrate }
  }
  const line = `${where} is at version ${version}, but this code knows only ${latest}`
  return { level: 'problem', code: 'ONCE_SCHEMA_NEWER', line, fix: 'npm i effectively-once@latest' }
}

/** Turns facts into findings, the worst first. */
export function findingsOf(facts: Facts): Finding[] {
  const findings = [
    ...outboxFindings(facts),
    ...operationFindings(facts),
    ...consumerFindings(facts),
    ...rewindFindings(facts),
    ...namespaceFindings(facts),
    ...(facts.server ? serverFindings(facts.server) : []),
  ]
  const order = ['problem', 'warning', 'fine']
  return findings.toSorted((a, b) => order.indexOf(a.level) - order.indexOf(b.level))
}

/** How a namespace appears in texts and commands, if there are several. */
function whose({ namespaces }: Facts, namespace: string | null): { of: string; option: string } {
  if (namespaces.length < 2 || namespace === null) return { of: '', option: '' }
  return { of: ` of '${namespace}'`, option: ` --namespace ${namespace}` }
}

function outboxFindings(facts: Facts): Finding[] {
  const code = 'ONCE_OUTBOX_WAITING'
  const findings = facts.destinations.flatMap((destination): Finding[] => {
    const { waiting, oldestMs, relays, parked, retrying, error } = destination
    const { of, option } = whose(facts, destination.namespace)
    const name = `'${destination.name}'${of}`
    const wait = `${counted(waiting, 'event')} waiting for ${name}, the oldest for ${ago(oldestMs)}`
    const found: Finding[] = []
    if (waiting + retrying > 0 && relays === 0) {
      const forget = `or, if these events are not needed: npx effectively-once forget '${destination.name}'${option} --force --why …`
      const fix = `${relayFix(destination.name, option)}, ${forget}`
      const what = waiting > 0 ? wait : `${counted(retrying, 'event')} for ${name} failed`
      found.push({ level: 'problem', code, line: `${what}, and no relay runs`, fix })
    } else if (waiting > 0 && (oldestMs ?? 0) > RELAY_PATIENCE_MS) {
      found.push({
        level: 'warning',
        code: 'outbox-lag',
        line: `${wait}, with ${counted(relays, 'running relay')}`,
        fix: 'look at the sink, and at the signals of the relay',
      })
    }
    if (retrying > 0) {
      const line = `${counted(retrying, 'event')} for ${name} failed and will be sent again: ${shortened(error, 200)}`
      found.push({ level: 'warning', code: 'outbox-retried', line })
    }
    if (parked > 0) {
      found.push({
        level: 'warning',
        code: 'outbox-parked',
        line: `${counted(parked, 'event')} for ${name} parked after the last attempt`,
        fix: `npx effectively-once parked list --destination '${destination.name}'${option}`,
      })
    }
    return found.length > 0 ? found : [fine('outbox', `everything was sent to ${name}`)]
  })
  for (const { name, unsent } of facts.namespaces) {
    if (unsent.events === 0) continue
    const { of, option } = whose(facts, name)
    const line = `${counted(unsent.events, 'event')}${of} waiting, the oldest for ${ago(unsent.oldestMs)}, and no relay has ever run`
    findings.push({ level: 'problem', code, line, fix: relayFix(null, option) })
  }
  return findings.length > 0 ? findings : [fine('outbox', 'no events wait')]
}

/** The command line gives a sink its default name. A relay to another name would send everything again. */
function relayFix(name: string | null, option: string): string {
  const url = name === null ? 'URL' : urlOf(name)
  const program = `once.relay({ to }).start()${name === null ? '' : `, to the sink '${name}'`}`
  return url === undefined ? program : `${program}, or: npx effectively-once relay --to ${url}${option}`
}

function urlOf(name: string): string | undefined {
  const [, kind = '', place = ''] = /^(webhook|nats|redis|kafka) (.+)/.exec(name) ?? []
  if (kind === '') return undefined
  if (kind !== 'webhook')
    return `'${kind}://HOST?${kind === 'kafka' ? 'topic' : 'stream'}=${encodeURIComponent(place)}'`
  return /^https?:/.test(place) ? place : undefined
}

/** With only one namespace, unclaimed rows are no problem: the next namespace may own them. */
function namespaceFindings({ namespaces, unclaimed }: Facts): Finding[] {
  if (namespaces.length < 2) return []
  const names = namespaces.map(({ name }) => name).join(', ')
  const [first] = namespaces
  if (unclaimed.length === 0) return [fine('namespaces', `${names} share this database`)]
  const line = `the owner of ${unclaimed.join(', ')} is not known: the rows are older than the namespaces ${names}. Perhaps the owner is '${first?.name}'`
  const fix = `start the relay or consumer in '${first?.name}', or: npx effectively-once migrate --adopt ${first?.name}`
  return [{ level: 'warning', code: 'ONCE_NAMESPACE_UNDECIDED', line, fix }]
}

function operationFindings({ operations: { unknown, abandoned, running } }: Facts): Finding[] {
  const findings: Finding[] = []
  if (unknown > 0) {
    const line = `${counted(unknown, 'operation')} with an unknown outcome: retries are refused`
    findings.push({
      level: 'problem',
      code: 'ONCE_OUTCOME_UNKNOWN',
      line,
      fix: 'npx effectively-once operations list --state unknown; ask the provider, then: operations settle ID',
    })
  }
  if (abandoned > 0) {
    const line = `${counted(abandoned, 'leased operation')} abandoned: no attempt holds the lease`
    findings.push({
      level: 'warning',
      code: 'abandoned',
      line,
      fix: 'npx effectively-once operations list --state abandoned; a retry of the client or recover of the route finishes them',
    })
  }
  return findings.length > 0 ? findings : [fine('operations', `${running} in progress, none abandoned or unknown`)]
}

function consumerFindings(facts: Facts): Finding[] {
  const { consumers, deadLetters, redrives } = facts
  const findings: Finding[] = []
  if (deadLetters.parked > 0) {
    const oldestMs = deadLetters.oldestMs ?? 0
    const line = `${counted(deadLetters.parked, 'dead letter')}, the oldest parked ${ago(oldestMs)} ago`
    const level = oldestMs > LETTERS_OLD_MS ? 'problem' : 'warning'
    findings.push({
      level,
      code: 'dead-letters',
      line,
      fix: 'npx effectively-once dead-letters count, then redrive plan',
    })
  }
  for (const { name, namespace, oldestLetterMs, rememberMs, seenAgoMs, retrying, error } of consumers) {
    const { of, option } = whose(facts, namespace)
    if (retrying > 0) {
      const line = `${counted(retrying, 'message')} of '${name}'${of} failed and will be tried again: ${shortened(error, 200)}`
      findings.push({
        level: 'warning',
        code: 'messages-retried',
        line,
      })
    }
    if ((oldestLetterMs ?? 0) > rememberMs) {
      const line = `dead letters of '${name}'${of} are older than rememberFor (${ago(rememberMs)}): it is unknown whether they were applied`
      const fix = `check them, then: npx effectively-once redrive run --consumer ${name}${option} --force --why …, or discard them`
      findings.push({ level: 'problem', code: 'ONCE_HORIZON_SHORT', line, fix })
    }
    if (rememberMs < REMEMBER_MS_MIN) {
      const line = `'${name}'${of} remembers messages for ${ago(rememberMs)} only: a later redelivery runs again`
      findings.push({ level: 'warning', code: 'ONCE_HORIZON_SHORT', line, fix: `raise rememberFor of '${name}'${of}` })
    }
    const waits = redrives.some(
      (one) => one.consumer === name && one.namespace === namespace && one.state === 'running',
    )
    if (waits && seenAgoMs > CONSUMER_SEEN_MS) {
      const line = `a redrive waits for the consumer '${name}'${of}, which was last seen ${ago(seenAgoMs)} ago`
      findings.push({
        level: 'problem',
        code: 'redrive-waits',
        line,
        fix: `start a process${of} that runs once.consumer('${name}', …)`,
      })
    }
  }
  for (const { redrive, consumer, namespace, state, reason } of redrives) {
    if (state !== 'paused' && state !== 'preparing') continue
    const { of, option } = whose(facts, namespace)
    const line = `redrive ${redrive} of '${consumer}'${of} is ${state}${reason === null ? '' : `: ${reason}`}`
    const fix = `npx effectively-once redrive resume ${redrive}${option} --why …, or abort`
    findings.push({ level: 'warning', code: 'redrive-paused', line, fix })
  }
  return findings.length > 0
    ? findings
    : [fine('consumers', `${counted(consumers.length, 'consumer')}, no dead letters`)]
}

/** After a rewind, receivers may lack events that nobody resends, so people must look. */
function rewindFindings(facts: Facts): Finding[] {
  return facts.rewinds.map(({ name, namespace, at, partitions }) => {
    const { of } = whose(facts, namespace)
    const shown = partitions.slice(0, REWOUND_SHOWN).map(({ partition, from, to }) => `${partition} (${from} → ${to})`)
    const more = partitions.length > REWOUND_SHOWN ? `, and ${partitions.length - REWOUND_SHOWN} more` : ''
    const line = `${new Date(at).toISOString()}: a failover or a restored backup lost transactions; '${name}'${of} went back to an earlier position in ${shown.join(', ')}${more}`
    const fix = 'check what receivers got since then; npx effectively-once redrive audit; use a synchronous standby'
    return { level: 'warning', code: 'rewound', line, fix }
  })
}

function serverFindings(server: ServerFacts): Finding[] {
  const { missingDays, strays, lockBudget, locksHeld, shardHolders, skewMs, between, preparedLost, readOnly } = server
  const findings: Finding[] = []
  if (readOnly) {
    const line = 'this database accepts no writes: it is a standby, or default_transaction_read_only is on'
    findings.push({ level: 'warning', code: 'read-only', line, fix: 'connect every process to the primary' })
  }
  if (strays > 0) {
    const line = `${counted(strays, 'answer')} in the default partition, because their days have no partition: the sweep removes them row by row`
    const fix =
      'sweep more often; give effectivelyOnce() a replayFor as long as the longest replayFor of its operations'
    findings.push({ level: 'warning', code: 'answer-partitions', line, fix })
  } else if (missingDays.length > 0) {
    const line = `no partition for the answers of ${missingDays.join(', ')}`
    findings.push({ level: 'warning', code: 'answer-partitions', line, fix: 'npx effectively-once sweep' })
  }
  for (const { pid, shards, ms, state, query } of shardHolders) {
    const line = `process ${pid} (${state}) has held ${counted(shards, 'outbox shard')} for ${ago(ms)}; other producers wait: ${query}`
    const fix = `commit right after inserting events; to end the process now: select pg_terminate_backend(${pid})`
    findings.push({ level: 'problem', code: 'shard-held', line, fix })
  }
  const budget = `${locksHeld} advisory locks held of about ${lockBudget}`
  if (locksHeld > lockBudget * LOCKS_HELD_SHARE || lockBudget < LOCK_BUDGET_MIN) {
    const fix = 'raise max_locks_per_transaction, or lower max of once.batched'
    findings.push({ level: 'warning', code: 'lock-budget', line: `${budget}: large batches may fail (53200)`, fix })
  } else findings.push(fine('lock-budget', budget))
  if (preparedLost) {
    const line = 'a pooler loses prepared statements'
    const fix =
      'use PgBouncer 1.21 with max_prepared_statements, or postgres(url, { prepare: false }); pgStore stops naming its statements'
    findings.push({ level: 'warning', code: 'pooler', line, fix })
  } else findings.push(fine('pooler', between ? 'prepared statements work through the pooler' : 'there is no pooler'))
  if (Math.abs(skewMs) > SKEW_MS_MAX) {
    const line = `this machine's clock is ${ago(Math.abs(skewMs))} ${skewMs > 0 ? 'behind' : 'ahead of'} the database's`
    findings.push({
      level: 'warning',
      code: 'clock-skew',
      line,
      fix: 'synchronise the clocks; webhook signatures contain timestamps',
    })
  } else findings.push(fine('clock-skew', 'the clocks agree'))
  return findings
}

function fine(code: string, line: string): Finding {
  return { level: 'fine', code, line }
}
