import { eventLock, shardsOf } from '../../../store/memory/statements/complete.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import type { Sink, Verdict } from '../../../sink/sink.ts'
import type { HoldParams, Outbox } from '../../../store/outbox.ts'
import type { EventRow } from '../../../store/store.ts'
import type { MemoryStore } from '../../../store/memory/memory-store.ts'
import type { EventData } from '../outbox-plan.ts'
import type { SimProcess } from '../process.ts'
import { SOUND } from '../flaw.ts'
import { client, statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'
import { withSessions } from './client-mutants.ts'

const FOUND_WITH_RELAYS: readonly Mutant[] = [
  client('I6', 'publishes before the commit', (store, process) =>
    withSessions(store, (session) => {
      const complete = session.complete.bind(session)
      return {
        complete(params) {
          send(process, params.events)
          return complete(params)
        },
      }
    }),
  ),

  client('I6', 'writes events in a transaction of their own', (store) =>
    withSessions(store, (session) => {
      const complete = session.complete.bind(session)
      return {
        async complete(params) {
          await apart(store, params.events)
          return complete({ ...params, events: [] })
        },
      }
    }),
  ),

  statement('I6', 'marks before it publishes', {
    ack: (work, params) =>
      STATEMENTS.ack(work, {
        ...params,
        acks: params.acks.map((of) => ({ ...of, cursor: of.tryingTo ?? of.cursor })),
      }),
  }),

  statement('I7', 'a plain cursor: numbers without the lock of the shard', completingWith(noLock)),

  statement('I7, 25', 'a late lock: the number is drawn before it is held', completingWith(lateLock)),

  {
    name: 'skips the failed head: its successors are sent all the same',
    of: 'I8',
    flaw: {
      ...SOUND,
      sink: (sink) => ({ ...sink, orders: true, send: (events, given) => oneByOne(sink, events, given) }),
    },
  },

  statement('I8', 'nobody waits for a head that failed twice', {
    async settleHeld(work, params) {
      return { ...(await STATEMENTS.settleHeld(work, params)), blocked: [] }
    },
  }),

  statement('I8', 'the next owner does not ask who waits', { blocked: () => [] }),

  {
    name: 'several events of an aggregate under way at once, at a sink that keeps no order',
    of: 'I8, 27',
    flaw: { ...SOUND, sink: (sink) => ({ ...sink, orders: true }) },
  },

  statement('I23', 'drops silently what it gave up', {
    ack: (work, params) =>
      STATEMENTS.ack(work, { ...params, hold: params.hold.filter(({ state }) => state !== 'parked') }),
    settleHeld: (work, params) =>
      STATEMENTS.settleHeld(work, {
        ...params,
        sent: [...params.sent, ...params.changed.filter(({ state }) => state === 'parked')],
        changed: params.changed.filter(({ state }) => state !== 'parked'),
        park: [],
      }),
  }),

  client('I23', 'tells that it gave up before that is written', (store, process) => ({
    ...store,
    outbox: tellingAtOnce(store.outbox, process),
  })),

  statement('I7', 'what is sent from among the held is not counted before', {
    tryHeld: async (work, params) => STATEMENTS.tryHeld(work, { ...params, events: [] }),
  }),

  statement('I23', 'forgets why it gave up', {
    ack: (work, params) =>
      STATEMENTS.ack(work, { ...params, hold: params.hold.map((of) => ({ ...of, reason: null })) }),
    settleHeld: (work, params) =>
      STATEMENTS.settleHeld(work, { ...params, changed: params.changed.map((of) => ({ ...of, reason: null })) }),
  }),
]

/** Mutants of publishing and relaying, hunted in worlds with relays. */
export const OUTBOX_MUTANTS: readonly Mutant[] = FOUND_WITH_RELAYS.map((mutant) => ({ ...mutant, relays: true }))

/** Tells the observer before the write, which may still fail. */
function tellingAtOnce(outbox: Outbox, { world, name }: SimProcess): Outbox {
  const tell = (held: readonly HoldParams[]): void => {
    for (const { state, seq, reason } of held) {
      if (state !== 'parked' || reason === null) continue
      world.note({ kind: 'parked', process: name, event: world.outbox.nameOf(seq) })
    }
  }
  return {
    ...outbox,
    async ack(params) {
      tell(params.hold)
      return { ...(await outbox.ack(params)), parked: [] }
    },
    async settleHeld(params) {
      tell(params.changed)
      return { ...(await outbox.settleHeld(params)), parked: [] }
    },
  }
}

async function oneByOne(sink: Sink, ...[events, given]: Parameters<Sink['send']>): Promise<Verdict[]> {
  const verdicts: Verdict[] = []
  for (const event of events) verdicts.push(...(await sink.send([event], given)))
  return verdicts
}

type Append = typeof STATEMENTS.append

async function noLock(...[{ database, tx }, events]: Parameters<Append>): Promise<void> {
  for (const event of events) tx.appendEvent({ ...event, seq: database.nextSeq(), createdAt: database.now() })
}

async function lateLock(...[work, events]: Parameters<Append>): Promise<void> {
  const { database, tx } = work
  const numbered = events.map((event) => ({ ...event, seq: database.nextSeq(), createdAt: database.now() }))
  const pause = work.pause('append.locked')
  if (pause !== undefined) await pause
  for (const shard of shardsOf(events)) await tx.advisory(eventLock(shard))
  for (const row of numbered) tx.appendEvent(row)
}

/** Replaces `append` in every statement that writes events. */
function completingWith(wrong: Append): Pick<typeof STATEMENTS, 'append' | 'complete' | 'completeLeased'> {
  return {
    append: wrong,
    async complete(work, params) {
      await STATEMENTS.complete(work, { ...params, events: [] })
      await wrong(work, params.events)
    },
    async completeLeased(work, params) {
      await STATEMENTS.completeLeased(work, { ...params, events: [] })
      await wrong(work, params.events)
    },
  }
}

function send({ world, name }: SimProcess, events: readonly EventRow[]): void {
  for (const { payload } of events) world.brokers[0].accept(JSON.parse(payload) as EventData, name)
}

async function apart(store: MemoryStore, events: readonly EventRow[]): Promise<void> {
  if (events.length === 0) return
  await store.transaction(async (tx) => (await store.join(tx)).append(events))
}
