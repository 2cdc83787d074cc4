export { idempotency } from '../http/fastify.ts'
export type { Idempotent } from '../http/fastify.ts'
export type { IdempotencyOptions, RouteOptions } from '../http/options.ts'
export type { Policy } from '../http/policy.ts'
