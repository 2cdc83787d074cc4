import type { SqlStore } from '../../src/store/store.ts'
import type { InboxItem } from '../../src/store/inbox.ts'

/** A planted mistake: looks first, and writes the inbox row by a transaction of its own after the effect. */
export function rowAfterEffect<Tx>(store: SqlStore<Tx>): SqlStore<Tx> {
  const { inbox } = store
  if (!inbox) return store
  const flawed: typeof inbox = Object.create(inbox, {
    take: {
      value: async ({
        consumer,
        items,
        deadlineMs,
      }: {
        consumer: string
        items: readonly InboxItem[]
        deadlineMs: number
      }) => {
        const states = await inbox.look({ consumer, items })
        const { session } = await inbox.take({ consumer, items: [], deadlineMs })
        const complete: typeof session.complete = async (params) => {
          const ending = await session.complete(params)
          const after = await inbox.take({ consumer, items, deadlineMs })
          await after.session.complete({ consumer, events: [], tried: [], positions: null })
          return ending
        }
        return { states, session: { session: session.session, complete, rollback: () => session.rollback() } }
      },
    },
  }) as typeof inbox
  for (const name of ['open', 'look', 'trying', 'tries', 'failed', 'park', 'sweep'] as const) {
    Object.defineProperty(flawed, name, { value: (inbox[name] as (...args: unknown[]) => unknown).bind(inbox) })
  }
  return new Proxy(store, {
    get(target, name) {
      if (name === 'inbox') return flawed
      const member: unknown = Reflect.get(target, name, target)
      return typeof member === 'function' ? (member as (...args: unknown[]) => unknown).bind(target) : member
    },
  })
}
