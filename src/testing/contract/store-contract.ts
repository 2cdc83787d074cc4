import type { SqlStore } from '../../store/store.ts'
import { ANSWER_CASES } from './answers.ts'
import { BATCH_CASES } from './batches.ts'
import { CANCEL_CASES } from './cancel.ts'
import { CLAIM_CASES } from './claims.ts'
import { ERASED_EVENT_CASES } from './erased-events.ts'
import { ERASED_LETTER_CASES } from './erased-letters.ts'
import { ERASURE_CASES } from './erasure.ts'
import { INBOX_CASES } from './inbox.ts'
import { SET_ASIDE_CASES } from './set-aside.ts'
import { LEASE_CASES } from './leases.ts'
import { HELD_CASES } from './held.ts'
import { PARKED_CASES } from './parked.ts'
import { NAMESPACE_CASES } from './namespaces.ts'
import { OUTBOX_CASES } from './outbox.ts'
import { RETENTION_CASES } from './retention.ts'
import { STEP_CASES } from './steps.ts'
import { STREAM_CASES } from './streams.ts'
import { missing, needing } from './subject.ts'
import type { Case, ContractCase, SqlSubject, StoreSubject } from './subject.ts'
import { tracked } from './tracked.ts'
import { TRANSACTION_CASES } from './transactions.ts'

export type { ContractCase, StoreSubject } from './subject.ts'

/**
 * The tests that every store must pass, for any test runner. The store must be migrated. Every case creates its own
 * subject and closes it. A store without transactions, or without another optional part, skips the cases of that part.
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
    ...ANSWER_CASES,
    ...LEASE_CASES,
    ...STEP_CASES,
    ...needing(['transactions'], [...CLAIM_CASES, ...TRANSACTION_CASES]),
    ...needing(['transactions', 'batches'], BATCH_CASES),
    ...needing(['transactions', 'outbox'], [...OUTBOX_CASES, ...HELD_CASES, ...CANCEL_CASES, ...PARKED_CASES]),
    ...needing(['transactions', 'inbox'], [...INBOX_CASES, ...SET_ASIDE_CASES]),
    ...needing(['transactions', 'erasure'], ERASURE_CASES),
    ...needing(['transactions', 'erasure', 'outbox', 'namespaces'], ERASED_EVENT_CASES),
    ...needing(['transactions', 'erasure', 'inbox'], ERASED_LETTER_CASES),
    ...needing(['transactions', 'outbox', 'namespaces'], NAMESPACE_CASES),
    ...needing(['retention'], RETENTION_CASES),
    ...needing(['streams'], STREAM_CASES),
  ]
  return cases.map((of) => ({
    name: of.name,
    async run() {
      const subject: StoreSubject<unknown> = await make()
      const { store, letGo } = tracked(subject.store as SqlStore<unknown>)
      try {
        const whole = { ...subject, store } as SqlSubject
        const skipped = missing(subject, of) ?? of.unless?.(whole) ?? null
        if (skipped !== null) return { skipped }
        await of.test(whole)
        return undefined
      } finally {
        await letGo()
        await subject.close()
      }
    },
  }))
}
