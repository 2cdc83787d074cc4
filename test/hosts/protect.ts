import { idempotency } from '../../src/entry/fetch.ts'
import type { Once } from '../../src/index.ts'

/** Makes a route of an answer. What an answer throws is its host's own. */
export type Protect = (answer: () => unknown) => (request: Request) => Promise<Response>

export interface EffectTx {
  query(sql: string, values?: unknown[]): Promise<unknown>
}

/** Protected, or with `x-plain` as if we were not there. */
export function protectOn(once: Once<EffectTx, {}>): Protect {
  const idempotent = idempotency(once, { scope: 'global' })
  return (answer) => async (request) => {
    if (request.headers.has('x-plain')) return answer() as Response
    return idempotent(async (_request, { tx, key }) => {
      await tx.query('insert into contract_effect (route, key) values ($1, $2)', ['x', key])
      return answer() as Response
    })(request)
  }
}
