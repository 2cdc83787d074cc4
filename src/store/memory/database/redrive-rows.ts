import type { AuditEntry, RedriveOutcome, RedriveState } from '../../redrives.ts'

/** The tables of redrives. Times are microseconds of the database's clock. */
export interface RedriveRow {
  readonly id: number
  readonly consumer: string
  readonly state: RedriveState
  readonly round: number
  readonly token: number
  readonly leaseUntil: number | null
  readonly rate: number
  readonly pauseAt: number
  readonly canary: number
  readonly canaryStops: boolean
  readonly reason: string | null
  readonly by: string
  readonly why: string
  readonly createdAt: number
  readonly endedAt: number | null
}

export interface RedriveItemRow {
  readonly redrive: number
  readonly ord: number
  readonly letter: string
  readonly state: RedriveOutcome
  readonly round: number
  readonly starts: number
  readonly body: string | null
}

/**
 * The fence of a redrive. Its holder locks this row in share mode until the effect has committed, and a takeover locks
 * it exclusively. Changes of other columns lock another row, and wait for neither.
 */
export interface RedriveFenceRow {
  readonly token: number
}

/** The one redrive of a consumer that has not ended. */
export interface ActiveRedriveRow {
  readonly redrive: number
}

export interface AuditRow extends AuditEntry {
  /** The number of the namespace that the entry is about. */
  readonly namespace: number
}

export const redriveKey = (redrive: number): string => String(redrive)
export const itemKey = (redrive: number, ord: number): string => `${redrive} ${ord}`
