export { IdempotencyInterceptor, Idempotent, InjectOnce, OnceContext, OnceModule, Op } from '../http/nest.ts'
export type { NestOptions } from '../http/nest.ts'
export type { IdempotencyOptions, RouteOptions } from '../http/options.ts'
export type { Policy } from '../http/policy.ts'
