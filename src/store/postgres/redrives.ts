import { onceError } from '../../errors.ts'
import { DEADLINE_MS_DEFAULT, SERVER_DEADLINE_SLACK_MS } from '../../limits.ts'
import { LETTER_STATES, type LetterFilter } from '../dead-letters.ts'
import { auditOf, beatOf, itemOf, outcomeNumbers, planOf, redriveOf, stateNumber } from '../sql/redrive-rows.ts'
import type {
  AuditEntry,
  AuditParams,
  BeatRedriveParams,
  ChangeRedriveParams,
  CreatedRedrive,
  CreateRedriveParams,
  ImportedLetter,
  ImportOutcome,
  NewAuditEntry,
  RedriveBeat,
  RedriveCopy,
  RedriveDecision,
  RedriveHeld,
  RedriveItem,
  RedriveItemsParams,
  RedriveLease,
  Redrives,
  StoredPlan,
  StoredRedrive,
} from '../redrives.ts'
import type { Row, Session } from '../store.ts'
import { arrayLiteral, arraysOf } from './array-literal.ts'
import { explained } from './commit.ts'
import type { PgDriver, PgStatement } from './driver/driver.ts'
import { told } from './errors.ts'
import { idsIn, lockArrays } from './inbox-rows.ts'
import { filterValues } from './letters.ts'
import { lockSql } from './sql/inbox.ts'
import * as making from './sql/redrive.ts'
import * as running from './sql/redrive-run.ts'

/**
 * Redrives on PostgreSQL. Every method except `import` is one statement. None is a named prepared statement, because
 * they are rare.
 */
export class PostgresRedrives<Tx> implements Redrives<Tx> {
  readonly #driver: PgDriver<Tx>
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, schema: string) {
    this.#driver = driver
    this.#schema = schema
  }

  async plan({ filter }: { readonly filter: LetterFilter }): Promise<readonly StoredPlan[]> {
    return (await this.#query(making.planRedriveSql, filterValues(filter))).map(planOf)
  }

  async create(params: CreateRedriveParams): Promise<CreatedRedrive> {
    const { filter, by, why, asked, prepare, canary, canaryStops, rate, pauseAt, force, reorder } = params
    const state = stateNumber(prepare ? 'preparing' : 'running')
    const values = [by, why, asked, state, canary, canaryStops, rate, pauseAt, force, reorder, filter.namespace ?? 0]
    const [row] = await this.#query(making.createRedriveSql, [...filterValues(filter), ...values])
    if (!row) return { kind: 'refused', plan: null }
    const plan = planOf(row)
    if (row['redrive'] !== null) return { kind: 'created', redrive: Number(row['redrive']), plan }
    const [active] = await this.#query(making.activeRedriveSql, [filter.consumer])
    return active ? { kind: 'active', redrive: Number(active['id']) } : { kind: 'refused', plan }
  }

  async items({ redrive, outcomes, after, limit }: RedriveItemsParams): Promise<readonly RedriveItem[]> {
    const values = [redrive, arrayLiteral(outcomeNumbers(outcomes)), after, limit]
    return (await this.#query(making.redriveItemsSql, values)).map(itemOf)
  }

  async copy({
    redrive,
    copies,
  }: {
    readonly redrive: number
    readonly copies: readonly RedriveCopy[]
  }): Promise<void> {
    const arrays = arraysOf(copies, 'ord', 'body')
    await this.#query(making.copyRedriveSql, [redrive, ...arrays])
  }

  async change(params: ChangeRedriveParams): Promise<StoredRedrive | null> {
    const { redrive, from, to, reason, by, why, action, token, retry = false, passed = false, rate } = params
    const states = [arrayLiteral(from.map(stateNumber)), stateNumber(to)]
    const { namespace = 0, round = null } = params
    const asked = [token ?? null, retry, passed, rate ?? null]
    const values = [redrive, ...states, reason, by, why, action, ...asked, namespace, round]
    const changed = await this.#query(making.changeRedriveSql, values)
    return changed.length === 0 ? null : this.get({ redrive })
  }

  async get({ redrive }: { readonly redrive: number }): Promise<StoredRedrive | null> {
    const [row] = await this.#query(making.readRedrivesSql, [redrive, 1, null])
    return row ? redriveOf(row) : null
  }

  async list({ limit, namespace }: Parameters<Redrives<Tx>['list']>[0]): Promise<readonly StoredRedrive[]> {
    const of = namespace === undefined ? null : String(namespace)
    return (await this.#query(making.readRedrivesSql, [null, limit, of])).map(redriveOf)
  }

  async claim(params: { readonly consumer: string; readonly leaseMs: number }): Promise<RedriveLease | null> {
    const { consumer, leaseMs } = params
    await this.#query(running.consumerSeenSql, [consumer])
    const [row] = await this.#query(running.claimRedriveSql, [consumer, leaseMs])
    if (!row) return null
    const { rate, pause_at: pauseAt } = row
    return {
      redrive: Number(row['id']),
      token: String(row['token']),
      consumer,
      rate: Number(rate),
      pauseAt: Number(pauseAt),
    }
  }

  async beat({ redrive, token, leaseMs, starting, ended }: BeatRedriveParams): Promise<RedriveBeat | null> {
    const values = [redrive, token, leaseMs, arrayLiteral(starting), arrayLiteral(ended)]
    // Uses a connection beside the pool if the client can, because handlers may hold every connection of the pool.
    const [row] = await this.#told(() => this.#driver.aside(this.#statement(running.beatRedriveSql, values)))
    return row ? beatOf(row) : null
  }

  async settle(session: Session<Tx>, params: RedriveHeld & { readonly ords: readonly number[] }): Promise<boolean> {
    const { redrive, token, ords } = params
    const statement = this.#statement(running.settleRedriveSql, [redrive, token, arrayLiteral(ords)])
    const [row] = await this.#told(() => this.#driver.join(session.tx).query(statement))
    return Number(row?.['settled']) === ords.length
  }

  async decide({
    redrive,
    token,
    decisions,
  }: RedriveHeld & { readonly decisions: readonly RedriveDecision[] }): Promise<boolean> {
    const of = (pick: (decision: Extract<RedriveDecision, { error: string }>) => string): string =>
      arrayLiteral(decisions.map((decision) => ('error' in decision ? pick(decision) : null)))
    const [row] = await this.#query(running.decideRedriveSql, [
      redrive,
      token,
      ...arraysOf(decisions, 'ord'),
      arrayLiteral(outcomeNumbers(decisions.map(({ outcome }) => outcome))),
      of(({ reason }) => reason),
      of(({ error }) => error),
      of(({ fingerprint }) => fingerprint),
      of(({ causes }) => causes),
    ])
    return Number(row?.['held']) === 1
  }

  async extend({ redrive, token }: RedriveHeld): Promise<number> {
    return Number((await this.#query(running.extendRedriveSql, [redrive, token]))[0]?.['letters'])
  }

  async release({ redrive, token }: RedriveHeld): Promise<void> {
    await this.#query(running.releaseRedriveSql, [redrive, token])
  }

  async audit({ redrive, limit, namespace }: AuditParams): Promise<readonly AuditEntry[]> {
    return (await this.#query(running.readAuditSql, [redrive ?? null, limit, namespace ?? null])).map(auditOf)
  }

  async write({ by, action, redrive, why, detail, namespace = 0 }: NewAuditEntry): Promise<void> {
    await this.#query(running.writeAuditSql, [by, action, redrive, why, detail, namespace])
  }

  async import({ letters }: { readonly letters: readonly ImportedLetter[] }): Promise<ImportOutcome> {
    return this.#told(async () => {
      const deadlineMs = String(DEADLINE_MS_DEFAULT + SERVER_DEADLINE_SLACK_MS)
      const first = this.#statement(lockSql, [deadlineMs, ...lockArrays(letters)])
      const { connection, rows } = await this.#driver.begin(first)
      try {
        const busy = idsIn(rows[0]?.['busy'])
        const free = letters.filter(({ id }) => !busy.includes(id))
        const [row] = await connection.query(this.#statement(running.importLettersSql, [importedJson(free)]))
        const ending = await explained(connection.commit(), this.#schema)
        if (ending !== 'committed') throw onceError('ONCE_ROLLED_BACK')
        return { imported: Number(row?.['imported']), applied: Number(row?.['applied']), busy }
      } catch (error) {
        await connection.rollback()
        throw error
      }
    })
  }

  async sweep({ keepForMs }: { readonly keepForMs: number }): Promise<number> {
    return Number((await this.#query(running.sweepRedrivesSql, [keepForMs]))[0]?.['redrives'])
  }

  #query(sql: (schema: string) => string, values: readonly unknown[]): Promise<readonly Row[]> {
    return this.#told(() => this.#driver.query(this.#statement(sql, values)))
  }

  #statement(sql: (schema: string) => string, values: readonly unknown[]): PgStatement {
    return { name: '', text: sql(this.#schema), values }
  }

  #told<T>(work: () => Promise<T>): Promise<T> {
    return told(this.#schema, work)
  }
}

function importedJson(letters: readonly ImportedLetter[]): string {
  const rows = letters.map(({ lock: _, state, causes, headers, timeline, parkedAt, ...same }, n) => ({
    ...same,
    n,
    state: LETTER_STATES.indexOf(state),
    causes: JSON.parse(causes) as unknown,
    headers: JSON.parse(headers) as unknown,
    timeline: JSON.parse(timeline) as unknown,
    parked: parkedAt,
  }))
  return JSON.stringify(rows)
}
