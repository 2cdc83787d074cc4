import type { Events } from '../outbox/event.ts'
import { promiseTerms, type RetentionOptions } from '../operation/retention-terms.ts'
import { openapiOf, type OpenapiFragment } from './openapi.ts'
import { POLICY_PATH, policyOf, type Policy } from './policy.ts'
import type { ProtectedRoute } from './protected-route.ts'

/** Documents for clients, on every bound `idempotent`. */
export interface Documented {
  /** The policy as JSON. Serve it at `policyPath`. */
  policy(): Policy
  /** Parameters, headers, responses and schemas to merge into an OpenAPI 3.1 document. */
  openapi(): OpenapiFragment
  readonly policyPath: string
}

/** `routes`: what each route promises that is not bound before its first request. */
export function documentsOf<Tx, E extends Events, Req>(
  protection: ProtectedRoute<Tx, E, Req>,
  routes: Iterable<RetentionOptions> = [],
): Documented {
  const policy = (): Policy => {
    for (const own of routes) promiseTerms(protection.instance.core, { ...protection.route.overrides, ...own })
    return policyOf(protection)
  }
  return {
    policy,
    openapi: () => openapiOf(policy()),
    policyPath: POLICY_PATH,
  }
}
