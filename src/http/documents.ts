import type { Events } from '../outbox/event.ts'
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

export function documentsOf<Tx, E extends Events, Req>(protection: ProtectedRoute<Tx, E, Req>): Documented {
  return {
    policy: () => policyOf(protection),
    openapi: () => openapiOf(policyOf(protection)),
    policyPath: POLICY_PATH,
  }
}
