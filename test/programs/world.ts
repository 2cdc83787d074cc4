import { openBed } from './beds.ts'
import { batchedPlays, type BatchedInput, type Shop, type Tx } from './bed.ts'
import { messageSource } from './play/message-source.ts'
import type { BatchedFault, Lock, Message, RowFault, StoreName } from './program.ts'
import { turns } from './play/turns.ts'
import { final } from '../../src/index.ts'

// oxlint-disable-next-line no-explicit-any -- of every mode at once
export type Op = any
export type { Shop, Tx } from './bed.ts'

const UNDONE = new Error('undone')

/**
 * What printed programs are written with, so that they can be pasted into a test:
 * `const { shop, write, close } = await world('pg')`. `rows()` tells how many rows there are.
 */
export async function world(store: StoreName) {
  const { bed, close } = await openBed(store)
  const place = await bed.place(0)
  const program = 'pasted'
  let written = 0
  const charges: string[] = []
  const background = new Set<Promise<unknown>>()
  const row = (fault: RowFault | null, lock: Lock = null) => ({ uid: `${program}.${written++}`, program, fault, lock })
  const { alone } = place
  let sending: Promise<unknown> | undefined
  return {
    ...place.instances,
    scope: program,
    turns,
    hold: (ms: number) => new Promise((resolve) => setTimeout(resolve, ms)),
    final,
    alone,
    /** Publishes the messages of a consumer of the outbox, once. */
    send(messages: readonly Message[]) {
      sending ??= place.own(async (tx) => {
        for (const { id, aggregate } of messages)
          await alone.join(tx).publish('sent', { program: `${program}.${aggregate ?? id}`, uid: String(id) })
      })
      return sending
    },
    own: place.own,
    undone: UNDONE,
    /** Rolled back to where its body fails; `throw undone` is not thrown on. */
    async savepoint(tx: Tx, work: () => Promise<unknown>) {
      await place.run(tx, 'savepoint mine')
      try {
        await work()
        await place.run(tx, 'release savepoint mine')
      } catch (error) {
        await place.run(tx, 'rollback to savepoint mine')
        if (error !== UNDONE) throw error
      }
    },
    write: (tx: Tx, fault: RowFault | null = null, lock: Lock = null) => place.write(tx, row(fault, lock)),
    rows: async () => (await place.read({ program, ids: [], messages: [] })).rows.length,
    source: (messages: readonly Message[]) => messageSource(messages, { program, consumer: 0 }),
    batched(once: Shop, request: { scope: string; key: string; input: BatchedInput }, of: BatchedOf) {
      const via = once === place.instances.bank ? 'bank' : once === place.instances.twin ? 'twin' : 'shop'
      const { fault } = of
      const isRow = fault !== 'throws' && fault !== 'refuses' && fault !== 'answer'
      batchedPlays.set(request.input, {
        statement: () => place.statement(row(isRow ? fault : null, of.lock)),
        respond: (publish) => {
          if (of.publishes) void publish('made', { program, uid: 'batched' })
          if (fault === 'throws') throw new Error('thrown')
          if (fault === 'refuses') throw final({ status: 402 })
          return fault === 'answer' ? { id: 1n } : request.key
        },
      })
      return place.batched[via](request)
    },
    /** An outside call that takes its time, and fails before or after it was made. */
    provider:
      (name: string, of: { fault: 'before' | 'after' | 'unserialisable' | null; turns: number }) => async () => {
        await turns(of.turns)
        if (of.fault === 'before') throw new Error('thrown')
        charges.push(name)
        if (of.fault === 'after') throw new Error('thrown')
        return of.fault === 'unserialisable' ? { id: 1n } : { name }
      },
    asksProvider: (name: string) => async () => (charges.includes(name) ? { done: { name } } : ('rerun' as const)),
    charges,
    made: (extra?: unknown) => ({ program, uid: `${program}.${written++}`, ...(extra !== undefined && { extra }) }),
    /** Nobody awaits it but `idle`. */
    detach(work: () => Promise<unknown>) {
      const settled: Promise<unknown> = work()
        .catch(() => {})
        .finally(() => background.delete(settled))
      background.add(settled)
    },
    /** Calls with a promise that is kept when the call has ended. */
    async ending<T>(call: (ended: Promise<unknown>) => Promise<T>): Promise<T> {
      let end: () => void = () => {}
      const ended = new Promise<void>((resolve) => (end = resolve))
      try {
        return await call(ended)
      } finally {
        end()
      }
    },
    async idle() {
      while (background.size > 0) await Promise.all(background)
    },
    close,
  }
}

interface BatchedOf {
  readonly fault: BatchedFault | null
  readonly publishes: boolean
  readonly lock: Lock
}
