import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Streams } from '../store/streams.ts'
import { positionOf } from '../stream/event-frame.ts'
import { endOf } from '../stream/head.ts'
import { positionAfter, readWritten } from '../stream/written.ts'
import type { Incoming } from './incoming.ts'

/** Where a client wants to go on: behind a number of bytes, or behind an event. */
export type WantedPosition = { readonly offset: number } | { readonly eventId: string }

/** The request header with the number of bytes that the client has. The answer has it, too. */
export const STREAM_OFFSET = 'stream-offset'
const OFFSET = /^\d{1,15}$/

/** What the request asks for. `Stream-Offset` comes before `Last-Event-ID`. */
export function wantedPosition({ header }: Pick<Incoming<never>, 'header'>): WantedPosition {
  const offset = header(STREAM_OFFSET)
  if (offset !== undefined) {
    if (!OFFSET.test(offset)) throw noPosition('Stream-Offset must be a number of bytes')
    return { offset: Number(offset) }
  }
  const eventId = header('last-event-id')
  if (eventId === undefined || eventId === '') return { offset: 0 }
  const position = positionOf(eventId)
  return position === null ? { eventId } : { offset: position }
}

/** The position in the recorded stream. Throws if the stream has no such position. `answer`: the stream has ended. */
export async function positionIn(
  streams: Streams,
  of: { readonly id: string; readonly life: string },
  wanted: WantedPosition,
  answer: Answer | null,
): Promise<number> {
  const recorded = (answer && endOf(answer)?.recorded) ?? null
  const last = recorded === null || !answer?.body ? null : { start: recorded, bytes: answer.body }
  if ('eventId' in wanted) {
    const found = await positionAfter(streams, of, wanted.eventId, last)
    if (found === null) throw noPosition('No recorded event has the id of Last-Event-ID')
    return found
  }
  if (wanted.offset === 0) return 0
  const bytes = recorded === null ? (await readWritten(streams, of)).bytes : recorded + (last?.bytes.byteLength ?? 0)
  if (wanted.offset > bytes) throw noPosition(`The recorded stream has only ${bytes} bytes`)
  return wanted.offset
}

function noPosition(detail: string): Error {
  return onceError('ONCE_STREAM_POSITION', { detail })
}
