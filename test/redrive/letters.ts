import { messageIdentity } from '../../src/consumer/inbox/identity.ts'
import type { MemoryMessage } from '../../src/testing/source-contract/memory-broker.ts'
import { CONSUMER } from './world.ts'

const PER_AGGREGATE = 5

/** The nth message: five of an aggregate, in order. */
export function messageAt(n: number): MemoryMessage & { id: string } {
  return { id: `m${n}`, aggregate: `a${Math.floor(n / PER_AGGREGATE)}`, data: { note: n } }
}

/** The same as a dead letter, as `dead-letters export` writes it. */
export function letterLine(n: number, previous?: number): string {
  const { id: message, aggregate, data } = messageAt(n)
  const [source, type] = ['memory', 'step.made']
  const before = previous === undefined ? null : messageAt(previous).id
  return JSON.stringify({
    id: messageIdentity({ consumer: CONSUMER, source, message }).id,
    consumer: CONSUMER,
    source,
    message,
    type,
    aggregate,
    previous: before === null ? null : messageIdentity({ consumer: CONSUMER, source, message: before }).id,
    tenant: null,
    state: 'parked',
    reason: n % PER_AGGREGATE === 0 ? 'failed' : 'behind',
    error: 'Error: the printer is on fire',
    fingerprint: 'f1re',
    causes: [],
    timeline: [],
    headers: {},
    body: JSON.stringify({ specversion: '1.0', id: message, source, type, subject: aggregate, data }),
    shown: null,
    traceparent: null,
    attempts: 1,
    parkedAt: new Date().toISOString(),
  })
}
