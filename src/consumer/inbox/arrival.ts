import type { Span } from '../../observe/tracing.ts'
import { frame } from '../../key/frame.ts'
import { sha256Hex } from '../../platform/sha256.ts'
import { isStorable, storable } from '../../platform/storable.ts'
import type { Delivery } from '../../source/source.ts'
import type { Letter, LetterReason } from '../../store/dead-letters.ts'
import type { InboxItem } from '../../store/inbox.ts'
import { describeError } from '../../platform/describe-error.ts'
import { messageIdentity } from './identity.ts'

export interface ArrivalOptions {
  readonly delivery: Delivery
  /** The consumer's name as a part of the ids of its messages. */
  readonly consumer: string
  /** The message's id, or its natural key. */
  readonly message: string
  readonly problem: string | undefined
  readonly seq: number
  readonly at: number
}

/** One message that a consumer holds, from its delivery to its settlement. */
export class Arrival {
  readonly delivery: Delivery
  readonly item: InboxItem
  /** Grows in the order of arrival. */
  readonly seq: number
  readonly at: number
  /** The bytes that its first delivery keeps in memory. */
  readonly bytes: number
  /** Why it cannot be read. */
  readonly problem: string | undefined
  /** Other deliveries of the same message that came meanwhile. They are settled with it. */
  readonly twins: Delivery[] = []
  /** The number of twins that are settled with it. */
  #twinsTaken = 0
  /** The message is not picked before this time, on the process's own clock. */
  notBefore = 0
  /** When its predecessor was first found missing. Null if it is not missing. */
  earlySince: number | null = null
  /** Failures and crashes known so far. */
  attempts = 0
  /** The database has a row of its attempts. */
  tried = false
  /** This attempt was counted before it began. */
  counted = false
  /** With 'at-most-once': counted together with the attempt, so that this process recognises its own count. */
  mark: string | null = null
  /** Its handler was called. */
  began = false
  /** With 'at-most-once': it failed after it began, and only its letter is missing. */
  failure: { readonly error: unknown } | null = null
  /** It may have crashed a process, so it runs only with other suspects, one such batch at a time. */
  suspect = false
  /** It made a batch fail, or was running at more than one crash, so it runs alone. */
  alone = false
  /** It was parked, but the reply was lost. If it is found parked later, this result is reported. */
  parkedAs: { readonly reason: LetterReason; readonly letter: Letter } | null = null
  /** Set while it runs, if the instance has a tracer. */
  span: Span | undefined

  constructor(of: ArrivalOptions) {
    const { delivery, consumer, message } = of
    const { aggregate, previous } = delivery
    // Use the stored form, because a reader of the letter must compute the same id.
    const source = storable(delivery.source)
    this.delivery = delivery
    this.seq = of.seq
    this.at = of.at
    this.bytes = delivery.bytes ?? 0
    this.problem = of.problem
    this.item = {
      ...messageIdentity({ consumer, source, message }),
      source,
      message,
      aggregate: aggregate === null ? null : storable(aggregate),
      // With a natural key, the key of the predecessor is unknown.
      previous:
        previous === null || message !== delivery.id
          ? null
          : messageIdentity({ consumer, source, message: previous }).id,
    }
  }

  /** Makes the message wait until a time (0: not at all). It then no longer waits for its predecessor. */
  waitUntil(at: number): void {
    this.notBefore = at
    if (at > 0) this.earlySince = null
  }

  /** The twins that came so far are settled with it. */
  takesTwins(): void {
    this.#twinsTaken = this.twins.length
  }

  /** Takes out the twins that came later. A failover may have lost this commit, so a late twin may have to run. */
  lateTwins(): Delivery[] {
    return this.twins.splice(this.#twinsTaken)
  }

  /** All deliveries that must be settled with the broker. */
  get deliveries(): readonly Delivery[] {
    return this.twins.length === 0 ? [this.delivery] : [this.delivery, ...this.twins]
  }
}

/** The id of a message, or the natural key of its event. A message without one cannot be read. */
export function keyOf(
  key: ((event: unknown) => string) | undefined,
  delivery: Delivery,
): Pick<ArrivalOptions, 'message' | 'problem'> {
  const { id, problem } = delivery
  if (!isStorable(id)) return { message: `sha256:${sha256Hex(frame(id))}`, problem: problem ?? unstorable('id') }
  if (problem !== undefined) return { message: id, problem }
  for (const name of ['source', 'type'] as const) {
    if (!isStorable(delivery[name])) return { message: id, problem: unstorable(name) }
  }
  try {
    const { event } = delivery
    if (!key) return { message: id, problem: undefined }
    const message = key(event)
    if (typeof message === 'string' && message !== '' && message.length <= KEY_LENGTH_MAX && isStorable(message)) {
      return { message, problem: undefined }
    }
    return { message: id, problem: `key() must return a string of 1 to ${KEY_LENGTH_MAX} characters` }
  } catch (error) {
    return { message: id, problem: `the message cannot be read: ${describeError(error).line}` }
  }
}

function unstorable(name: string): string {
  return `the message's ${name} has a NUL character or a lone surrogate`
}

const KEY_LENGTH_MAX = 1_024
