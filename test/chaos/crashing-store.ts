import type { SqlSession, SqlStore } from '../../src/store/store.ts'

/** Where a process can be killed: before and after each trip of the protocol, and while the last one is on the wire. */
export const ATOMIC_POINTS = [
  'before begin',
  'after begin',
  'in handler',
  'before complete',
  'during complete',
  'after complete',
] as const
export const LEASED_POINTS = [
  'before claim',
  'after claim',
  'in step',
  'before finishStep',
  'after finishStep',
  'before open',
  'before complete',
  'during complete',
  'after complete',
] as const
export type CrashPoint = (typeof ATOMIC_POINTS)[number] | (typeof LEASED_POINTS)[number] | 'nowhere'

/** SIGKILL to ourselves: no handler, no flush, no goodbye. */
export function die(): never {
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}

/** The same store, in a process that is killed at the named point. */
export function crashingStore<Tx>(store: SqlStore<Tx>, crashAt: () => CrashPoint): SqlStore<Tx> {
  const around =
    <A extends unknown[], R>(name: string, call: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      if (crashAt() === `before ${name}`) die()
      if (crashAt() === `during ${name}`) {
        void call(...args)
        // The bytes leave in this turn; the reply never arrives.
        await new Promise((resolve) => setImmediate(resolve))
        die()
      }
      const result = await call(...args)
      if (crashAt() === `after ${name}`) die()
      return result
    }
  const session = (inner: SqlSession<Tx>): SqlSession<Tx> =>
    override(inner, { complete: around('complete', inner.complete.bind(inner)) })
  const { leases } = store
  return override(store, {
    begin: around('begin', async (params) => {
      const begun = await store.begin(params)
      return { ...begun, session: session(begun.session) }
    }),
    leases: override(leases, {
      claim: around('claim', leases.claim.bind(leases)),
      finishStep: around('finishStep', leases.finishStep.bind(leases)),
    }),
    open: around('open', async (params) => session(await store.open(params))),
  })
}

/** A view of an object with some members replaced; private fields keep working, because methods stay bound to it. */
function override<T extends object>(inner: T, members: Partial<T>): T {
  return new Proxy(inner, {
    get(target, name) {
      if (name in members) return members[name as keyof T]
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? (value as (...args: unknown[]) => unknown).bind(target) : value
    },
  })
}
