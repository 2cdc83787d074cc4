export { idempotency } from '../http/node-http.ts'
export type { Idempotent, NodeOptions } from '../http/node-http.ts'
export type { IdempotencyOptions, RouteOptions } from '../http/options.ts'
export type { Policy } from '../http/policy.ts'
