import { BATCH_CASES } from './batches.ts'
import { CLAIM_CASES } from './claims.ts'
import { INBOX_CASES } from './inbox.ts'
import { SET_ASIDE_CASES } from './set-aside.ts'
import { LEASE_CASES } from './leases.ts'
import { HELD_CASES } from './held.ts'
import { PARKED_CASES } from './parked.ts'
import { NAMESPACE_CASES } from './namespaces.ts'
import { OUTBOX_CASES } from './outbox.ts'
import { RETENTION_CASES } from './retention.ts'
import { STEP_CASES } from './steps.ts'
import type { Case, ContractCase, StoreSubject } from './subject.ts'
import { tracked } from './tracked.ts'
import { TRANSACTION_CASES } from './transactions.ts'

export type { ContractCase, StoreSubject } from './subject.ts'

/**
 * What every store must do, for any test runner. The store is migrated; every case makes its own subject and closes it.
 *
 * @example
 * for (const { name, run } of storeContract(make)) {
 *   test(name, async ({ skip }) => {
 *     const result = await run()
 *     if (result) skip(result.skipped)
 *   })
 * }
 */
// oxlint-disable-next-line no-explicit-any -- whatever the store's transaction is: only the subject looks inside
export function storeContract(make: () => Promise<StoreSubject<any>>): readonly ContractCase[] {
  const cases: readonly Case[] = [
    ...CLAIM_CASES,
    ...TRANSACTION_CASES,
    ...LEASE_CASES,
    ...STEP_CASES,
    ...BATCH_CASES,
    ...OUTBOX_CASES,
    ...HELD_CASES,
    ...PARKED_CASES,
    ...INBOX_CASES,
    ...SET_ASIDE_CASES,
    ...NAMESPACE_CASES,
    ...RETENTION_CASES,
  ]
  return cases.map(({ name, unless, test }) => ({
    name,
    async run() {
      const subject = (await make()) as StoreSubject<unknown>
      const { store, letGo } = tracked(subject.store)
      try {
        const skipped = unless?.(subject) ?? null
        if (skipped !== null) return { skipped }
        await test({ ...subject, store })
        return undefined
      } finally {
        await letGo()
        await subject.close()
      }
    },
  }))
}
