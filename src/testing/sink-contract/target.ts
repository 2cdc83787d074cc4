import type { OutgoingEvent, Sink } from '../../sink/sink.ts'

/** What arrived on the other side. */
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

/** A sink on its real server, and ways to look at what arrived there. */
export interface SinkTarget {
  readonly sink: Sink
  /** Everything that arrived so far, in order. */
  received(): Promise<readonly Received[]>
  /** Takes the server away, and brings it back. Absent where that cannot be done. */
  readonly outage?: { begin(): Promise<void>; end(): Promise<void> }
  /** Data with so many bytes is more than the other side takes. Absent where it takes everything. */
  readonly tooLarge?: number
  close(): Promise<void>
}

/** An event as a relay would hand it over. */
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
