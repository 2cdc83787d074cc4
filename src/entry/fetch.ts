export { idempotency } from '../http/fetch.ts'
export type { Idempotent } from '../http/fetch.ts'
export type { IdempotencyOptions, RouteOptions } from '../http/options.ts'
export type { Policy } from '../http/policy.ts'
