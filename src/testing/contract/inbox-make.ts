import { strict as assert } from 'node:assert'
import { messageIdentity } from '../../consumer/inbox/identity.ts'
import type { Letter, NewLetter } from '../../store/dead-letters.ts'
import type { CompleteInboxParams, Inbox, InboxItem, InboxState } from '../../store/inbox.ts'
import type { Session } from '../../store/store.ts'
import { DEADLINE_MS, LEASE_MS, LONG_MS, newKey } from './make.ts'
import type { SqlSubject } from './subject.ts'

type Subject = SqlSubject

export const unless = ({ store }: Subject): string | null => (store.inbox ? null : 'the store has no inbox')

export function inboxOf({ store }: Subject): Inbox<unknown> {
  assert.ok(store.inbox)
  return store.inbox
}

export function itemOf(consumer: string, message: string, more: Partial<InboxItem> = {}): InboxItem {
  return {
    ...messageIdentity({ consumer, source: 'shop', message }),
    source: 'shop',
    message,
    aggregate: null,
    previous: null,
    ...more,
  }
}

export function letterOf(item: InboxItem, more: Partial<Letter> = {}): NewLetter {
  const { id, lock, source, message, aggregate, previous } = item
  return {
    id,
    lock,
    source,
    message,
    aggregate,
    previous,
    type: 'order.placed',
    tenant: null,
    state: 'parked',
    reason: 'failed',
    error: 'no',
    fingerprint: 'f1',
    causes: '[]',
    body: '{"a":1}',
    shown: null,
    headers: '{}',
    traceparent: null,
    attempts: 1,
    ...more,
  }
}

export const NOTHING: Omit<CompleteInboxParams, 'consumer'> = { events: [], tried: [], positions: null }

export async function apply(
  subject: Subject,
  consumer: string,
  items: readonly InboxItem[],
  redrive = false,
): Promise<readonly InboxState[]> {
  const inbox = inboxOf(subject)
  const ids = items.map(({ id }) => id)
  const redriving = redrive ? await redriveOf(subject, consumer, ids) : null
  const { states, session } = await inbox.take({ consumer, items, deadlineMs: DEADLINE_MS, redrive })
  for (const [i, { message }] of items.entries()) {
    if (states[i] === 'taken') await subject.effect(session.session.tx, message)
  }
  await redriving?.settle(session.session)
  assert.equal(await session.complete({ consumer, ...NOTHING }), 'committed')
  await redriving?.end()
  return states
}

/** Creates a redrive of these letters and leases it. Returns null when none of the letters is parked. */
async function redriveOf(
  { store: { redrives } }: Subject,
  consumer: string,
  ids: readonly string[],
): Promise<{ settle(session: Session<unknown>): Promise<void>; end(): Promise<unknown> } | null> {
  const by = { by: 'ada', why: 'mended' }
  const pace = { canary: 0, canaryStops: false, rate: 50, pauseAt: 1 }
  const allowed = { prepare: false, force: true, reorder: true }
  const created = await redrives.create({ filter: { consumer, ids }, ...by, asked: '{}', ...pace, ...allowed })
  if (created.kind !== 'created') return null
  const { redrive } = created
  const lease = await redrives.claim({ consumer, leaseMs: LEASE_MS })
  assert.ok(lease)
  const pending = await redrives.items({ redrive, outcomes: ['pending'], after: 0, limit: 100 })
  const ords = pending.filter(({ letter }) => ids.includes(letter.id)).map(({ ord }) => ord)
  return {
    settle: async (session) => assert.ok(await redrives.settle(session, { ...lease, ords })),
    end: () => redrives.change({ redrive, from: ['running'], to: 'done', reason: null, ...by, action: 'done' }),
  }
}

export function park(subject: Subject, consumer: string, letters: readonly NewLetter[]): Promise<readonly string[]> {
  return inboxOf(subject).park({ consumer, letters, positions: null, deadlineMs: DEADLINE_MS })
}

interface Times {
  readonly inboxForMs?: number
  readonly rememberForMs?: number
  readonly lettersForMs?: number
}

/** Registers a new consumer, and returns its name and the inbox. */
export async function reading(
  subject: Subject,
  more: Times = {},
): Promise<{ readonly consumer: string; readonly inbox: Inbox<unknown> }> {
  return { consumer: await opened(subject, more), inbox: inboxOf(subject) }
}

export async function opened(subject: Subject, more: Times = {}): Promise<string> {
  const consumer = newKey()
  const times = { inboxForMs: LONG_MS, rememberForMs: LONG_MS * 2, lettersForMs: LONG_MS, ...more }
  await inboxOf(subject).open({ consumer, ...times })
  return consumer
}
