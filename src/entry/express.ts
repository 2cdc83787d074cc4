export { idempotency, keepRawBody } from '../http/express.ts'
export type { Idempotent } from '../http/express.ts'
export type { IdempotencyOptions, RouteOptions } from '../http/options.ts'
export type { Policy } from '../http/policy.ts'
