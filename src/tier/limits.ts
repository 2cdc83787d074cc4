/** The largest answer in a shared cache. Larger answers are read from the database. */
export const SHARED_ANSWER_BYTES_MAX: number = 256 * 1024
/** How long the nonce of a reader stays in a shared cache, and so how long after its look a call may fill it. */
export const NONCE_MS = 30_000
/** A call stops waiting for a shared cache after this time without any reply of its server. */
export const CACHE_QUIET_MS = 5
/** The longest wait for a shared cache that still replies to others. */
export const CACHE_LOOK_MS_MAX = 20
/** After this many waits in vain, a shared cache is not asked for CACHE_REST_MS. */
export const CACHE_FAILURES_MAX = 3
export const CACHE_REST_MS = 1_000
/** How long a removal waits for a shared cache. Then a new epoch makes all its entries worthless. */
export const CACHE_DROP_MS = 2_000
export const CACHE_DROP_KEYS_MAX = 500
/** A process reads the epoch of a shared cache again after this time. */
export const EPOCH_MS = 2_000
/** What a process has read of the epoch counts for this time. */
export const EPOCH_FOR_MS = 5_000
/** After this time every process knows a new epoch, even if its clock is a little slow. */
export const EPOCH_SETTLES_MS = 6_000
/** A request to the cache without an answer in this time has failed, even if nobody waits for it. */
export const CACHE_ANSWER_MS = 5_000
