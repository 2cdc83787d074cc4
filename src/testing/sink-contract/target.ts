import type { OutgoingEvent, Sink } from '../../sink/sink.ts'

/** One message that arrived at the server. */
export interface Received {
  readonly id: string
  readonly source: string
  readonly type: string
  readonly subject: string
  readonly time: string
  readonly data: unknown
  readonly brokerId: string
  readonly traceparent: string | undefined
}

/** A sink connected to its real server, with access to the messages that arrived there. */
export interface SinkTarget {
  readonly sink: Sink
  /** Every message that has arrived so far, in order of arrival. */
  received(): Promise<readonly Received[]>
  /** Makes the server unavailable, and available again. Leave this out where the test cannot do so. */
  readonly outage?: { begin(): Promise<void>; end(): Promise<void> }
  /** A size in bytes that the server refuses as too large. Leave this out if the server has no limit. */
  readonly tooLarge?: number
  close(): Promise<void>
}

/** Creates an event as the relay would pass it to a sink. */
export function eventFor(aggregate: string, n: number, data: unknown = { aggregate, n }): OutgoingEvent {
  const id = `00000000-0000-4000-8000-${Buffer.from(`${aggregate}:${n}`).toString('hex').padStart(12, '0').slice(-12)}`
  return {
    specversion: '1.0',
    id,
    source: 'contract',
    type: 'step.made',
    subject: aggregate,
    time: '2026-01-02T03:04:05.678Z',
    datacontenttype: 'application/json',
    data,
    json: JSON.stringify(data),
    body: JSON.stringify(data),
    previous: undefined,
    aggregate: { type: 'step', id: aggregate },
    brokerId: id,
    deduplicationId: id,
    traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
    headers: { source: 'contract' },
    attempt: 1,
  }
}
