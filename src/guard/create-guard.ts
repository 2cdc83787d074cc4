import type { EnclosingContext } from '../operation/enclosing.ts'
import type { Observe } from '../observe/signal.ts'
import type { Clock } from '../platform/clock.ts'
import type { Store } from '../store/store.ts'
import { watchBypasses } from './bypass.ts'
import type { Guard } from '../operation/guard.ts'
import { KeyChurn } from './key-churn.ts'
import { watchOutsideCalls } from './outside-call.ts'
import { RunningOperations } from './guarded-operation.ts'
import { SharedScope } from './shared-scope.ts'
import { Warner } from './warn.ts'
import { WatchedOperation } from './watched.ts'
import { WrittenCounter } from './written.ts'

export interface GuardOptions {
  readonly mode: 'warn' | 'throw'
  readonly store: Pick<Store<unknown>, 'name' | 'watch'>
  readonly clock: Clock
  readonly observe: Observe
  readonly enclosing: EnclosingContext
  /**
   * Whether a host belongs to a store that is reached over HTTP. Calls to it are not outside calls. Default: no host
   * does
   */
  readonly isStoreHost?: (host: string) => boolean
}

/** The development guard: finds mistakes that types cannot prevent, and reports each with its place and remedy. */
export function createGuard({ mode, store, clock, observe, enclosing, isStoreHost }: GuardOptions): Guard {
  const running = new RunningOperations(enclosing)
  const warner = new Warner(observe)
  const counter = new WrittenCounter()
  const churn = new KeyChurn(clock)
  const shared = new SharedScope()
  const stops = [watchOutsideCalls(running, isStoreHost ?? (() => false))]
  if (store.watch) stops.push(watchBypasses(store.watch, running))
  return {
    watch: ({ route }, session) => new WatchedOperation({ route, session, mode, warner, counter, running }),
    seen(operation) {
      const finding = churn.seen(operation)
      if (finding) warner.warn(finding)
    },
    seenCaller({ route, claim }, credentials) {
      const finding = shared.seen(route, claim.id, credentials)
      if (finding) warner.warn(finding)
    },
    stop() {
      for (const stop of stops.splice(0)) stop()
      churn.clear()
      shared.clear()
    },
  }
}
