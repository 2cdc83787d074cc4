import type { OnceCode } from '../../errors.ts'

/** A place where a process can die: a statement, a step, an outside call, a commit or an answer. */
export interface Boundary {
  readonly label: string
  /** 1: the first one with this label in the run. */
  readonly nth: number
  /** An answer has only 'before': nothing of the handler comes after it. */
  readonly sides: readonly Side[]
}

export type Side = 'before' | 'after'

/** The moment at which a process ends itself with SIGKILL. */
export interface Kill {
  readonly label: string
  readonly nth: number
  readonly side: Side
}

/** Leases that a dead process held. The next process ends them, because waiting for them would only take time. */
export type LeftLease =
  | { readonly kind: 'operation'; readonly id: string; readonly token: string }
  | {
      readonly kind: 'shards'
      readonly destination: string
      readonly relay: string
      readonly leases: readonly { readonly shard: number; readonly token: number }[]
    }

/** What one process does, in this order. */
export interface Job {
  /** The address of the module, as a URL. */
  readonly module: string
  /** The beginning of every key. */
  readonly name: string
  readonly left: readonly LeftLease[]
  /** The schedule in which the process before this one died. It is retried and checked. */
  readonly finish: number | null
  readonly next: NextSchedule | null
}

export interface NextSchedule {
  readonly schedule: number
  /** Null: nothing is killed. */
  readonly kill: Kill | null
  /** Every call of the client is made twice at once. */
  readonly doubled: boolean
}

export interface Failure {
  /** Where the error was thrown. */
  readonly of: 'reset' | 'act' | 'check'
  readonly message: string
}

/** What a process reports before it continues, so that nothing is lost if it dies. */
export type Told =
  /** The module, or its database, cannot be used. */
  | { readonly kind: 'refused'; readonly code: OnceCode; readonly message: string }
  | { readonly kind: 'boundary'; readonly boundary: Boundary }
  | { readonly kind: 'left'; readonly left: LeftLease }
  /** `keys`: how many keys the client used. */
  | { readonly kind: 'settled'; readonly schedule: number; readonly failure: Failure | null; readonly keys: number }
  | { readonly kind: 'killing' }

/** The file descriptor for these reports. Writes to it are synchronous. */
export const TOLD_FD = 3
