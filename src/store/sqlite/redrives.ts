import { LETTER_STATES } from '../dead-letters.ts'
import { auditOf, beatOf, itemOf, outcomeNumbers, planOf, redriveOf, stateNumber } from '../sql/redrive-rows.ts'
import { REDRIVE_OUTCOMES } from '../redrives.ts'
import type {
  BeatRedriveParams,
  ChangeRedriveParams,
  CreatedRedrive,
  CreateRedriveParams,
  ImportedLetter,
  ImportOutcome,
  NewAuditEntry,
  RedriveBeat,
  RedriveDecision,
  RedriveHeld,
  RedriveLease,
  Redrives,
} from '../redrives.ts'
import { filterValues } from './letters.ts'
import { numbered } from './numbered.ts'
import type { Reader } from './reader.ts'
import * as sql from './redrive-statements.ts'
import type { Turn } from './turn.ts'
import type { Handles, SqlTx } from './tx.ts'
import type { Writer } from './writer.ts'

const PLAN = numbered(sql.PLAN)
const LOOK = numbered(sql.LOOK)
const FREEZE = numbered(sql.FREEZE)
const READ = numbered(sql.READ)
const CHANGE = numbered(sql.CHANGE)
const SETTLE_LETTER = numbered(sql.SETTLE_LETTER)
const FAIL_LETTER = numbered(sql.FAIL_LETTER)
const BLOCK = numbered(sql.BLOCK)
const DECIDE = numbered(sql.DECIDE)
const EXTEND = numbered(sql.EXTEND)
const AUDIT = numbered(sql.AUDIT)
const APPLIED = numbered(sql.APPLIED)

/** Redrives on SQLite. Each change is one turn of the writer. */
export function sqliteRedrives(parts: { writer: Writer; reader: Reader; handles: Handles }): Redrives<SqlTx> {
  const { writer, reader, handles } = parts
  const read: Redrives<SqlTx>['get'] = async ({ redrive }) => {
    const [row] = await reader.all(READ.sql, READ.values([redrive, 1, null]))
    return row ? redriveOf(row) : null
  }
  return {
    plan: async ({ filter }) => (await reader.all(PLAN.sql, PLAN.values(filterValues(filter)))).map(planOf),
    create: (params) => writer.write((turn) => create(turn, params)),
    items: async ({ redrive, outcomes, after, limit }) => {
      const values = [redrive, JSON.stringify(outcomeNumbers(outcomes)), after, limit]
      return (await reader.all(sql.ITEMS, values)).map(itemOf)
    },
    copy: ({ redrive, copies }) =>
      writer.write((turn) => {
        for (const { ord, body } of copies) turn.run(sql.COPY, [body, redrive, ord])
      }),
    change: async (params) => {
      const changed = await writer.write((turn) => change(turn, params))
      return changed ? read({ redrive: params.redrive }) : null
    },
    get: read,
    list: async ({ limit, namespace }) => {
      const of = namespace === undefined ? null : String(namespace)
      return (await reader.all(READ.sql, READ.values([null, limit, of]))).map(redriveOf)
    },
    claim: async ({ consumer, leaseMs }) => {
      // Does not use the writer while there is nothing to do.
      const [look] = await reader.all(LOOK.sql, LOOK.values([consumer]))
      const worth = Number(look?.['free']) || Number(look?.['unseen'])
      return worth ? writer.write((turn) => claim(turn, consumer, leaseMs)) : null
    },
    beat: (params) => writer.write((turn) => beat(turn, params), { urgent: true }),
    settle: async (session, params) => session !== null && settle(handles.turnOf(session.tx), params),
    decide: (params) => writer.write((turn) => decide(turn, params)),
    extend: ({ redrive, token }) => writer.write((turn) => turn.run(EXTEND.sql, EXTEND.values([redrive, token]))),
    release: ({ redrive, token }) => writer.write((turn) => void turn.run(sql.RELEASE, [redrive, token])),
    audit: async ({ redrive, limit, namespace }) =>
      (await reader.all(AUDIT.sql, AUDIT.values([redrive ?? null, limit, namespace ?? null]))).map(auditOf),
    write: (entry) => writer.write((turn) => writeAudit(turn, entry)),
    import: ({ letters }) => writer.write((turn) => importAll(turn, letters)),
    sweep: ({ keepForMs }) =>
      writer.write((turn) => {
        turn.run(sql.SWEEP_ITEMS, [keepForMs])
        return turn.run(sql.SWEEP, [keepForMs])
      }),
  }
}

function create(turn: Turn, params: CreateRedriveParams): CreatedRedrive {
  const { filter, by, why, asked, prepare, canary, canaryStops, rate, pauseAt, force, reorder } = params
  const [row] = turn.all(PLAN.sql, PLAN.values(filterValues(filter)))
  if (!row) return { kind: 'refused', plan: null }
  const plan = planOf(row)
  const [active] = turn.all(sql.ACTIVE, [filter.consumer])
  if (active) return { kind: 'active', redrive: Number(active['id']) }
  if (!plan.known || (!force && plan.older > 0) || (!reorder && plan.overtaking > 0)) return { kind: 'refused', plan }
  const state = stateNumber(prepare ? 'preparing' : 'running')
  const values = [filter.consumer, by, why, state, canary, canaryStops ? 1 : 0, rate, pauseAt]
  const [made] = turn.all(sql.CREATE, values)
  const redrive = Number(made?.['id'])
  const letters = turn.run(FREEZE.sql, FREEZE.values([...filterValues(filter), redrive]))
  writeAudit(turn, {
    by,
    action: 'run',
    redrive,
    why,
    detail: JSON.stringify({ ...(JSON.parse(asked) as object), letters }),
    namespace: filter.namespace,
  })
  return { kind: 'created', redrive, plan }
}

function change(turn: Turn, params: ChangeRedriveParams): boolean {
  const { redrive, from, to, reason, by, why, action, token, retry = false, passed = false, rate, round } = params
  const states = [JSON.stringify(from.map(stateNumber)), stateNumber(to)]
  const asked = [token ?? null, retry ? 1 : 0, passed ? 1 : 0, rate ?? null, round ?? null]
  const values = [redrive, ...states, reason, ...asked]
  if (turn.run(CHANGE.sql, CHANGE.values(values)) === 0) return false
  const again = retry ? turn.run(sql.RETRY, [redrive]) : 0
  const detail = { ...(reason === null ? {} : { reason }), ...(rate === undefined ? {} : { rate }) }
  const told = JSON.stringify(again > 0 ? { ...detail, again } : detail)
  writeAudit(turn, { by, action, redrive, why, detail: told, namespace: params.namespace })
  return true
}

function claim(turn: Turn, consumer: string, leaseMs: number): RedriveLease | null {
  turn.run(sql.SEEN, [consumer])
  const [row] = turn.all(sql.CLAIM, [leaseMs, consumer])
  if (!row) return null
  const [rate, pauseAt] = [Number(row['rate']), Number(row['pause_at'])]
  return { redrive: Number(row['id']), token: String(row['token']), consumer, rate, pauseAt }
}

function beat(turn: Turn, { redrive, token, leaseMs, starting, ended }: BeatRedriveParams): RedriveBeat | null {
  const [row] = turn.all(sql.BEAT, [leaseMs, redrive, token])
  if (!row) return null
  if (ended.length > 0) turn.run(sql.ENDED, [redrive, JSON.stringify(ended)])
  if (starting.length > 0) turn.run(sql.STARTED, [redrive, JSON.stringify(starting)])
  const [decided] = turn.all(sql.DECIDED, [redrive, Number(row['round'])])
  return beatOf({ ...row, ...decided })
}

function settle(turn: Turn, { redrive, token, ords }: RedriveHeld & { readonly ords: readonly number[] }): boolean {
  const [held] = turn.all(sql.HELD, [redrive, token])
  if (!held) return false
  return ords.every((ord) => {
    if (turn.run(SETTLE_LETTER.sql, SETTLE_LETTER.values([redrive, ord])) === 0) return false
    return turn.run(DECIDE.sql, DECIDE.values([redrive, ord, Number(held['round']), 1])) === 1
  })
}

function decide(turn: Turn, params: RedriveHeld & { readonly decisions: readonly RedriveDecision[] }): boolean {
  const { redrive, token, decisions } = params
  const [held] = turn.all(sql.HELD, [redrive, token])
  if (!held) return false
  const round = Number(held['round'])
  for (const decision of decisions) {
    const { ord, outcome } = decision
    if (outcome === 'already') turn.run(SETTLE_LETTER.sql, SETTLE_LETTER.values([redrive, ord]))
    if (outcome === 'failed') {
      const { error, reason, fingerprint, causes } = decision
      turn.run(FAIL_LETTER.sql, FAIL_LETTER.values([redrive, ord, error, reason, fingerprint, causes]))
    }
    if (outcome === 'failed' || outcome === 'blocked') turn.run(BLOCK.sql, BLOCK.values([redrive, ord, round]))
    turn.run(DECIDE.sql, DECIDE.values([redrive, ord, round, REDRIVE_OUTCOMES.indexOf(outcome)]))
  }
  return true
}

export function writeAudit(turn: Turn, { by, action, redrive, why, detail, namespace = 0 }: NewAuditEntry): void {
  turn.run(sql.WRITE, [by, action, redrive, why, detail, namespace])
}

/** This turn holds the writer, so no other turn runs one of these messages. */
function importAll(turn: Turn, letters: readonly ImportedLetter[]): ImportOutcome {
  const counts = { imported: 0, applied: 0, busy: [] }
  for (const letter of letters) {
    if (Number(turn.all(APPLIED.sql, APPLIED.values([letter.id]))[0]?.['applied'])) counts.applied++
    else counts.imported += turn.run(sql.IMPORT, importValues(letter))
  }
  return counts
}

function importValues(letter: ImportedLetter): (string | number | null)[] {
  const { id, consumer, source, message, type, aggregate, previous, tenant, state, reason, error, fingerprint } = letter
  const { causes, body, shown, headers, traceparent, attempts, timeline, parkedAt } = letter
  const names = [id, consumer, source, message, type, aggregate, previous, tenant, LETTER_STATES.indexOf(state), reason]
  return [...names, error, fingerprint, causes, body, shown, headers, traceparent, attempts, timeline, parkedAt]
}
