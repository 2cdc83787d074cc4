import { REDRIVE_OUTCOMES, REDRIVE_STATES } from '../redrives.ts'
import type {
  AuditEntry,
  RedriveBeat,
  RedriveItem,
  RedriveOutcome,
  RedriveState,
  StoredPlan,
  StoredRedrive,
} from '../redrives.ts'
import type { Row } from '../store.ts'
import { letterOf } from './letter-rows.ts'

/** Rows of redrives. Both databases use the same column names. */

export function planOf(row: Row): StoredPlan {
  return {
    consumer: String(row['consumer']),
    known: Boolean(row['known']),
    seenAgoMs: maybe(row['seen_ago']),
    matching: Number(row['matching']),
    behind: Number(row['behind']),
    applied: Number(row['applied']),
    older: Number(row['older']),
    overtaking: Number(row['overtaking']),
    reordered: Number(row['reordered']),
  }
}

export function redriveOf(row: Row): StoredRedrive {
  return {
    redrive: Number(row['id']),
    consumer: String(row['consumer']),
    state: stateOf(row['state']),
    reason: row['reason'] as string | null,
    by: String(row['actor']),
    why: String(row['why']),
    canary: Number(row['canary']),
    canaryStops: Boolean(row['canary_stops']),
    rate: Number(row['rate']),
    pauseAt: Number(row['pause_at']),
    createdAt: Number(row['created_at']),
    endedAt: maybe(row['ended_at']),
    held: Boolean(row['held']),
    seenAgoMs: maybe(row['seen_ago']),
    counts: Object.fromEntries(
      REDRIVE_OUTCOMES.map((outcome, n) => [outcome, Number(row[`n${n}`])]),
    ) as StoredRedrive['counts'],
  }
}

export function itemOf(row: Row): RedriveItem {
  return {
    ord: Number(row['ord']),
    outcome: REDRIVE_OUTCOMES[Number(row['outcome'])] as RedriveOutcome,
    starts: Number(row['starts']),
    copy: row['copy'] as string | null,
    letter: letterOf(row),
  }
}

export function beatOf(row: Row): RedriveBeat {
  return {
    state: stateOf(row['state']),
    round: Number(row['round']),
    rate: Number(row['rate']),
    canary: Number(row['canary']),
    canaryStops: Boolean(row['canary_stops']),
    canaryDecided: Number(row['decided']),
    canaryFailed: Number(row['failed']),
  }
}

export function auditOf(row: Row): AuditEntry {
  return {
    seq: Number(row['seq']),
    at: Number(row['at']),
    by: String(row['actor']),
    action: String(row['action']),
    redrive: maybe(row['redrive']),
    why: String(row['why']),
    detail: String(row['detail']),
  }
}

export function outcomeNumbers(outcomes: readonly RedriveOutcome[]): number[] {
  return outcomes.map((outcome) => REDRIVE_OUTCOMES.indexOf(outcome))
}

export function stateNumber(state: RedriveState): number {
  return REDRIVE_STATES.indexOf(state)
}

function stateOf(value: unknown): RedriveState {
  return REDRIVE_STATES[Number(value)] as RedriveState
}

function maybe(value: unknown): number | null {
  return value === null || value === undefined ? null : Number(value)
}
