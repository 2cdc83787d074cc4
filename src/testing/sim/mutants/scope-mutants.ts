import { SCOPE } from '../address.ts'
import { SOUND } from '../flaw.ts'
import type { Flaw } from '../process.ts'
import type { Mutant } from './mutant.ts'

/** Mutants of the identity of operations, hunted in worlds with several tenants. */
export const SCOPE_MUTANTS: readonly Mutant[] = [
  named('writes scope and key one after the other, without their lengths', ({ scope, key }) => ({
    scope: SCOPE,
    key: `${scope}${key}`,
  })),

  named('leaves the scope out', ({ key }) => ({ scope: SCOPE, key })),
]

function named(name: string, wrong: Flaw['named']): Mutant {
  return { name, of: 'I19', flaw: { ...SOUND, named: wrong }, scopes: true }
}
