import type { EnclosingContext } from '../once/enclosing.ts'
import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { Store } from '../store/store.ts'
import type { Guard } from './guard.ts'

export interface GuardOptions {
  readonly mode: 'warn' | 'throw'
  readonly store: Pick<Store<unknown>, 'name' | 'watch'>
  readonly clock: Clock
  readonly observe: Observe
  readonly enclosing: EnclosingContext
}

export function createGuard(_options: GuardOptions): Guard | null {
  return null
}
