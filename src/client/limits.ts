/** The limits and defaults of the client. */

export const ATTEMPTS_DEFAULT = 8
export const ATTEMPTS_MAX = 1_000
/** Full jitter: a random pause up to the base, doubled for each attempt, up to the maximum. */
export const PAUSE_MS_DEFAULT = 200
export const PAUSE_MS_MAX_DEFAULT = 20_000
export const WAIT_MS_MIN = 1
export const WAIT_MS_MAX: number = 7 * 24 * 3_600_000
/** The time of one call with all its attempts, and of one attempt. */
export const CALL_MS_DEFAULT = 120_000
export const ATTEMPT_MS_DEFAULT = 30_000
/** A retry takes one token, and an answer that is not retried gives a part of a token back. */
export const BUDGET_TOKENS_DEFAULT = 100
export const BUDGET_TOKENS_MAX = 1_000_000
export const BUDGET_REFUND = 0.2
export const FAILURES_DEFAULT = 10
export const FAILURES_MAX = 10_000
export const REST_MS_DEFAULT = 5_000
/** How long a server without a published policy remembers a key. Providers promise at least this. */
export const RETENTION_MS_DEFAULT: number = 24 * 3_600_000
export const RETENTION_MS_MAX: number = 366 * 24 * 3_600_000
/**
 * A policy is read again after this time. A call this young may be repeated although its server's policy cannot be read
 * now.
 */
export const POLICY_FRESH_MS: number = 5 * 60_000
export const POLICY_PATH = '/.well-known/idempotency-key'
/** A done call keeps its name this long, so that a second press of the button asks for the same answer. */
export const REMEMBER_MS_DEFAULT: number = 24 * 3_600_000
/** The body is in the storage until the outcome is known. */
export const BODY_BYTES_MAX: number = 1024 * 1024
export const RESUMED_AT_ONCE = 8
/** How many names of a folder are read at the same time. */
export const READ_AT_ONCE = 16
/**
 * How long, and after which pauses, a tab looks for a write of another tab that it does not see yet. A browser may
 * stretch each pause of a hidden tab to a minute, so the looks are not counted.
 */
export const LATE_MS_MAX = 2_000
export const LATE_LOOK_MS = 5
