export { idempotency } from '../http/hono.ts'
export type { Idempotent } from '../http/hono.ts'
export type { IdempotencyOptions, RouteOptions } from '../http/options.ts'
export type { Policy } from '../http/policy.ts'
