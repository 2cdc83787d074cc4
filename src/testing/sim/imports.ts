import { messageIdentity } from '../../consumer/inbox/identity.ts'
import type { EventData } from './outbox-plan.ts'
import type { SimProcess } from './process.ts'
import type { Reader } from './readers.ts'

/** Only imported letters have this reason. */
export const IMPORTED = 'refused'

interface Message {
  readonly id: string
  readonly data: EventData
}

/** A dead letter of a message, in the format of an export. */
export function letterLine(
  { once, world }: SimProcess,
  { name, source }: Reader,
  { id: message, data }: Message,
): string {
  const consumer = once.core.namespace.hashed(name)
  return JSON.stringify({
    id: messageIdentity({ consumer, source, message }).id,
    consumer: name,
    source,
    message,
    type: data.type,
    aggregate: data.aggregate,
    state: 'parked',
    reason: IMPORTED,
    error: 'Error: it was exported',
    fingerprint: 'exported',
    causes: [],
    timeline: [],
    headers: {},
    body: JSON.stringify(data),
    attempts: 1,
    parkedAt: new Date(world.database.clock.now()).toISOString(),
  })
}
