import { LETTER_STATES } from '../dead-letters.ts'
import type { LetterFilter, LetterReason, LetterState, StoredLetter } from '../dead-letters.ts'
import type { LetterGroup } from '../letter-counts.ts'
import type { Row } from '../store.ts'

/** The parts of a filter in the order of its parameters. `listOf` writes a list as the database reads it. */
export function letterFilterValues(
  filter: LetterFilter,
  listOf: (values: readonly (string | number)[]) => string,
): (string | number | null)[] {
  const { consumer, source, type, aggregate, tenant, fingerprint, reason, states, ids, from, to, namespace } = filter
  return [
    ...[consumer, source, type, aggregate, tenant, fingerprint, reason].map((value) => value ?? null),
    states ? listOf(states.map((state) => LETTER_STATES.indexOf(state))) : null,
    ids ? listOf(ids) : null,
    from ?? null,
    to ?? null,
    namespace === undefined ? null : String(namespace),
  ]
}

export function letterOf(row: Row): StoredLetter {
  return {
    id: String(row['id']),
    seq: Number(row['seq']),
    consumer: String(row['consumer']),
    source: String(row['source']),
    message: String(row['message']),
    type: String(row['type']),
    aggregate: row['aggregate'] as string | null,
    previous: row['previous'] as string | null,
    tenant: row['tenant'] as string | null,
    state: LETTER_STATES[Number(row['state'])] as LetterState,
    reason: row['reason'] as LetterReason,
    error: row['error'] as string | null,
    fingerprint: String(row['fingerprint']),
    causes: String(row['causes']),
    body: String(row['body']),
    shown: row['shown'] as string | null,
    headers: String(row['headers']),
    traceparent: row['traceparent'] as string | null,
    attempts: Number(row['attempts']),
    timeline: String(row['timeline']),
    parkedAt: Number(row['parked_at']),
    settledAt: row['settled_at'] === null ? null : Number(row['settled_at']),
    blocks: Number(row['blocks']),
  }
}

export function groupOf(row: Row): LetterGroup {
  return {
    consumer: String(row['consumer']),
    fingerprint: String(row['fingerprint']),
    reason: row['reason'] as LetterReason,
    error: row['error'] as string | null,
    count: Number(row['count']),
    firstAt: Number(row['first_at']),
    lastAt: Number(row['last_at']),
  }
}
