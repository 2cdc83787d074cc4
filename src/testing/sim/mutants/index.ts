import { CANCEL_MUTANTS } from './cancel-mutants.ts'
import { CLAIM_MUTANTS } from './claim-mutants.ts'
import { CLIENT_MUTANTS } from './client-mutants.ts'
import { CONSUMER_MUTANTS } from './consumer-mutants.ts'
import { ERASE_MUTANTS } from './erase-mutants.ts'
import { LEASE_MUTANTS } from './lease-mutants.ts'
import type { Mutant } from './mutant.ts'
import { OUTBOX_MUTANTS } from './outbox-mutants.ts'
import { RELEASE_MUTANTS } from './release-mutants.ts'
import { READER_MUTANTS, REDRIVE_MUTANTS } from './redrive-mutants.ts'
import { SCOPE_MUTANTS } from './scope-mutants.ts'
import { SET_ASIDE_MUTANTS } from './set-aside-mutants.ts'
import { TIER_MUTANTS } from './tier-mutants.ts'

export type { Mutant } from './mutant.ts'
export { hunt } from './hunt.ts'
export { PATCHES } from './patches.ts'

export const MUTANTS: readonly Mutant[] = [
  ...CLAIM_MUTANTS,
  ...LEASE_MUTANTS,
  ...CLIENT_MUTANTS,
  ...OUTBOX_MUTANTS,
  ...CONSUMER_MUTANTS,
  ...REDRIVE_MUTANTS,
  ...READER_MUTANTS,
  ...SET_ASIDE_MUTANTS,
  ...RELEASE_MUTANTS,
  ...SCOPE_MUTANTS,
  ...CANCEL_MUTANTS,
  ...TIER_MUTANTS,
  ...ERASE_MUTANTS,
]
