import type { DecodedFrom, Events } from '../outbox/event.ts'
import { isFinal } from '../operation/final.ts'

/** `decode` failed for the bytes of a message. The dead letter shows this error. */
class Undecodable extends Error {
  override readonly name: string = 'Undecodable'
}

/** The event as its handler gets it. Bytes are decoded if the catalogue has a `decode`. JSON stays as it is. */
export async function decoded(events: Events | undefined, event: unknown): Promise<unknown> {
  if (events === undefined) return event
  const { type, data, headers } = (event ?? {}) as Partial<DecodedFrom> & { readonly data?: unknown }
  if (!(data instanceof Uint8Array) || type === undefined || !Object.hasOwn(events, type)) return event
  const decode = events[type]?.options?.decode
  if (!decode) return event
  try {
    return { ...(event as object), data: (await decode(data, { type, headers: headers ?? {} })) as unknown }
  } catch (cause) {
    if (isFinal(cause)) throw cause
    const reason = cause instanceof Error ? cause.message : String(cause)
    throw new Undecodable(`'${type.slice(0, 80)}' could not be decoded: ${reason}`, { cause })
  }
}
