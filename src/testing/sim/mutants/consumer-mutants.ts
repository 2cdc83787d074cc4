import type { Work } from '../../../store/memory/database/connection.ts'
import type { MemoryStore } from '../../../store/memory/memory-store.ts'
import { lookAt } from '../../../store/memory/statements/inbox.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import type { Transaction } from '../../../store/memory/database/transaction.ts'
import type { InboxItem, Taken } from '../../../store/inbox.ts'
import type { MemoryTx } from '../../../store/memory/database/memory-tx.ts'
import type { Delivery } from '../../../source/source.ts'
import { SOUND } from '../flaw.ts'
import type { Flaw } from '../process.ts'
import { client, statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const FOUND_WITH_CONSUMERS: readonly Mutant[] = [
  source('I9', 'acknowledges before the commit', async (deliveries, ack) => {
    await ack(deliveries)
    return deliveries
  }),

  source('28', 'a message that comes again has another id', async (deliveries) =>
    deliveries.map((of) => (of.redelivered ? { ...of, id: `${of.id}:r${of.delivered}` } : of)),
  ),

  statement('I9', 'writes the inbox row after the effect', lateRow()),

  client('I9', 'commits the inbox row before the handler runs', (store) => {
    const { inbox } = store
    return !inbox ? store : { ...store, inbox: { ...inbox, take: (params) => rowsFirst(store, params) } }
  }),

  client('30', 'keeps the inbox rows of what it rolled back', (store) => {
    const { inbox } = store
    if (!inbox) return store
    const take: typeof inbox.take = async (params) => {
      const taken = await inbox.take(params)
      const rows = params.items.filter((_, i) => taken.states[i] === 'taken')
      return keeping(taken, () => insertAlone(store, params.consumer, rows))
    }
    return { ...store, inbox: { ...inbox, take } }
  }),

  statement('44', 'does not ask for the predecessor', {
    takeMessages: (work, consumer, items, redrive) =>
      STATEMENTS.takeMessages(
        work,
        consumer,
        items.map((item) => ({ ...item, previous: null })),
        redrive,
      ),
  }),

  {
    name: 'tells nobody of dead letters',
    of: 'I24',
    flaw: { ...SOUND, hears: ({ kind }) => kind !== 'deadLetter' },
  },

  statement('I23', 'drops silently what it cannot take', { parkLetters: () => Promise.resolve() }),

  statement('I21, 32', 'does not count what ends its process', {
    trying: (work, _, ids) => Promise.resolve(STATEMENTS.tries(work, ids)),
  }),
]

/** Mutants of the consumer, hunted in worlds with relays and consumers. */
export const CONSUMER_MUTANTS: readonly Mutant[] = FOUND_WITH_CONSUMERS.map((mutant) => ({
  ...mutant,
  relays: true,
  consumers: true,
}))

type Changed = (
  deliveries: readonly Delivery[],
  ack: (deliveries: readonly Delivery[]) => Promise<void>,
) => Promise<readonly Delivery[]>

/** A defect between the broker and the consumer. */
function source(of: string, name: string, change: Changed): Mutant {
  const wrong: Flaw['source'] = (sound) => ({
    ...sound,
    async open(params) {
      const subscription = await sound.open(params)
      return {
        ...subscription,
        receive: async (wanted) => change(await subscription.receive(wanted), (all) => subscription.ack(all)),
      }
    },
  })
  return { name, of, flaw: { ...SOUND, source: wrong } }
}

/**
 * Checks first, runs the handler, and writes the row at the end. Two consumers that check at the same time both run it.
 */
function lateRow(): Pick<typeof STATEMENTS, 'takeMessages' | 'completeInbox'> {
  const waiting = new WeakMap<Transaction, { readonly consumer: string; readonly items: readonly InboxItem[] }>()
  return {
    async takeMessages(work, consumer, items) {
      const states = lookAt(work, consumer, items, false)
      waiting.set(work.tx, { consumer, items: items.filter((_, i) => states[i] === 'taken') })
      return states
    },
    async completeInbox(work, params) {
      await STATEMENTS.completeInbox(work, params)
      const { consumer, items } = waiting.get(work.tx) ?? { consumer: '', items: [] }
      await insertRows(work, consumer, items)
    },
  }
}

async function insertRows({ database, tx }: Work, consumer: string, items: readonly InboxItem[]): Promise<void> {
  for (const { id, source: from, message } of items)
    await database.inbox.insert(id, { id, consumer, source: from, message, at: database.now() }, tx)
}

async function insertAlone({ database }: MemoryStore, consumer: string, items: readonly InboxItem[]): Promise<void> {
  const tx = database.begin({ interactive: false })
  await insertRows({ database, tx, pause: () => undefined }, consumer, items)
  tx.commit()
}

async function rowsFirst(
  store: MemoryStore,
  params: Parameters<NonNullable<MemoryStore['inbox']>['take']>[0],
): Promise<Taken<MemoryTx>> {
  const inbox = store.inbox
  const taken = await inbox.take(params)
  const rows = params.items.filter((_, i) => taken.states[i] === 'taken')
  await taken.session.rollback()
  await insertAlone(store, params.consumer, rows)
  const empty = await inbox.take({ ...params, items: [] })
  return { ...empty, states: taken.states }
}

function keeping(taken: Taken<MemoryTx>, keep: () => Promise<void>): Taken<MemoryTx> {
  const { session } = taken
  const wrapped: Taken<MemoryTx>['session'] = {
    session: session.session,
    complete: (params) => session.complete(params),
    async rollback() {
      await session.rollback()
      await keep()
    },
  }
  return { ...taken, session: wrapped }
}
