export { idempotency } from '../http/koa.ts'
export type { Idempotent } from '../http/koa.ts'
export type { IdempotencyOptions, RouteOptions } from '../http/options.ts'
export type { Policy } from '../http/policy.ts'
