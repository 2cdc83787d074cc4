import { milliseconds, type Duration } from '../../duration.ts'
import { NATS_CALLS, NATS_PUBLISHES_MAX, NATS_TIMEOUT_MS_DEFAULT, NATS_TIMEOUT_MS_MAX } from '../../limits.ts'
import { invalid, refuseUnknown } from '../../options.ts'
import { lanesOf } from '../../sink/lanes.ts'
import { judgeNatsError } from './errors.ts'
import { covers, isSubject, judgeStream, type NatsStreamInfo, type StreamJudgement } from './stream.ts'
import {
  cloudEventHeaders,
  cloudEventJson,
  contentMode,
  SENT,
  traceHeaders,
  type OutgoingEvent,
  type Sink,
  type Verdict,
} from '../../sink/sink.ts'

/** The part of `jetstream(connection)` of @nats-io/jetstream that the sink uses. */
export interface NatsJetStream {
  publish(
    subject: string,
    payload: string | Uint8Array,
    // oxlint-disable-next-line no-explicit-any -- the client's own class of headers
    options: { msgID: string; timeout: number; expect: { streamName: string }; headers?: any },
  ): Promise<unknown>
  jetstreamManager(checkAPI?: boolean): Promise<{ readonly streams: { info(stream: string): Promise<NatsStreamInfo> } }>
}

export interface NatsSinkOptions {
  /** The stream that receives the events. It must exist. */
  stream: string
  /** Where each event is published. Default: the stream's name, a dot and the event's type */
  subject?: string | ((event: OutgoingEvent) => string)
  /** Names the destination. Default: `nats` and the stream's name */
  name?: string
  /** How long one acknowledgement may take. Default '5s' */
  timeout?: Duration
  /**
   * CloudEvents' content mode. 'structured' (default): one JSON document. 'binary': attributes are headers (`ce-id`, …),
   * and the data alone is the payload. 'binary' needs `headers`.
   */
  mode?: 'structured' | 'binary'
  /** With `mode: 'binary'`: `headers` of @nats-io/transport-node, which makes the headers of a message. */
  headers?: () => { set(name: string, value: string): void }
  /**
   * Set it if the servers run with `sync_interval: always`, which a client cannot see. Then an acknowledged event is on
   * disk.
   */
  syncAlways?: boolean
}

const OPTIONS = new Set(['stream', 'subject', 'name', 'timeout', 'syncAlways', 'mode', 'headers'])

/**
 * Publishes to a JetStream stream, each event as one CloudEvent. `Nats-Msg-Id` is the event's id, so the stream drops an
 * event that a relay sends twice within the duplicate window.
 *
 * @example
 * await once.relay({ to: natsSink(jetstream(connection), { stream: 'payments' }) }).start()
 */
export function natsSink(js: NatsJetStream, options: NatsSinkOptions): Sink {
  if (typeof js?.publish !== 'function' || typeof js.jetstreamManager !== 'function') {
    throw invalid('natsSink() needs jetstream(connection) of @nats-io/jetstream')
  }
  refuseUnknown(options, OPTIONS, 'natsSink()')
  const { stream } = options ?? {}
  if (typeof stream !== 'string' || !/^[^\s.*>/\\]+$/.test(stream))
    throw invalid('natsSink({ stream }) needs the name of a stream')
  const subjectOf = subjectFrom(options)
  const limits = { option: 'timeout', min: 1, max: NATS_TIMEOUT_MS_MAX }
  const timeout = milliseconds(options.timeout, NATS_TIMEOUT_MS_DEFAULT, limits)
  const messageOf = encoderOf(options)
  let judged: StreamJudgement = { proves: 'accepted', dedupes: false, subjects: [], warnings: [] }

  async function publish(event: OutgoingEvent): Promise<Attempt> {
    let subject: string
    let message: Message
    try {
      subject = subjectOf(event)
      message = messageOf(event)
    } catch (error) {
      return failed(error, true)
    }
    if (!isSubject(subject))
      return failed(new Error(`'${String(subject)}' is not a valid NATS subject; set subject`), false)
    try {
      const { payload, ...headers } = message
      await js.publish(subject, payload, {
        msgID: event.deduplicationId,
        timeout,
        expect: { streamName: stream },
        ...headers,
      })
      return { verdict: SENT }
    } catch (error) {
      // The server does not answer for a subject that the stream does not accept. Then only this event fails.
      const taken = judged.subjects.length === 0 || covers(judged.subjects, subject)
      const judgement = judgeNatsError(error, taken)
      if (judgement === 'down') return { down: error }
      if (judgement !== 'perhapsDown') return failed(error, judgement === 'retryable')
      return { verdict: { kind: 'failed', error, retryable: true, perhapsDown: true } }
    }
  }

  return {
    name: options.name ?? `nats ${stream}`,
    system: 'nats',
    get proves() {
      return judged.proves
    },
    get dedupes() {
      return judged.dedupes
    },
    orders: true,
    // A busy aggregate delays one call, not all of them.
    concurrency: NATS_CALLS,
    async open() {
      const manager = await js.jetstreamManager(false)
      const info = await manager.streams.info(stream).catch((error: unknown) => {
        throw isNotFound(error)
          ? invalid(`the stream '${stream}' does not exist; create it with the subject '${stream}.>'`, error)
          : error
      })
      const example = typeof options.subject === 'function' ? undefined : (options.subject ?? `${stream}.x`)
      judged = judgeStream(info, { syncAlways: options.syncAlways === true, example })
      return judged.warnings
    },
    async send(events, { signal, told, mayBegin }) {
      const verdicts: (Verdict | undefined)[] = []
      const lanes = lanesOf(events)
      let down: { readonly error: unknown } | undefined
      let next = 0
      // One unconfirmed event per aggregate: if several were sent at once, later events could overtake one that fails.
      const run = async (lane: readonly number[]): Promise<void> => {
        for (const [at, index] of lane.entries()) {
          if (signal.aborted) down ??= { error: signal.reason }
          if (down || mayBegin?.() === false) return
          const attempt = await publish(events[index] as OutgoingEvent)
          if ('down' in attempt) down ??= { error: attempt.down }
          else if (attempt.verdict.kind === 'sent') {
            verdicts[index] = attempt.verdict
            told?.(index, attempt.verdict)
          } else for (const behind of lane.slice(at)) verdicts[behind] = attempt.verdict
          if (verdicts[index]?.kind !== 'sent') return
        }
      }
      const worker = async (): Promise<void> => {
        for (let lane = lanes[next++]; lane; lane = lanes[next++]) await run(lane)
      }
      await Promise.all(Array.from({ length: Math.min(NATS_PUBLISHES_MAX, lanes.length) }, worker))
      if (down) throw down.error
      return verdicts as Verdict[]
    },
  }
}

type Attempt = { readonly verdict: Verdict } | { readonly down: unknown }

function failed(error: unknown, retryable: boolean): Attempt {
  return { verdict: { kind: 'failed', error, retryable } }
}

interface Message {
  readonly payload: string | Uint8Array
  readonly headers?: unknown
}

function encoderOf({ mode, headers: newHeaders }: NatsSinkOptions): (event: OutgoingEvent) => Message {
  if (contentMode(mode) === 'structured') return (event) => ({ payload: cloudEventJson(event) })
  if (typeof newHeaders !== 'function') throw invalid(`mode 'binary' needs headers of @nats-io/transport-node`)
  return (event) => {
    const headers = newHeaders()
    // NATS has no content type, so CloudEvents sends the type of the data as an attribute.
    const attributes = { ...cloudEventHeaders(event, 'ce-'), 'ce-datacontenttype': event.datacontenttype }
    for (const [name, value] of Object.entries({ ...attributes, ...traceHeaders(event) })) {
      headers.set(name, name.startsWith('ce-') ? percentEncoded(value) : value)
    }
    return { payload: event.body, headers }
  }
}

/** CloudEvents allows visible ASCII in a header, without quotation marks and percent signs. */
function percentEncoded(value: string): string {
  return value.replace(/[^!#$&-~]+/g, encodeURIComponent)
}

function subjectFrom({ stream, subject }: NatsSinkOptions): (event: OutgoingEvent) => string {
  if (subject === undefined) return (event) => `${stream}.${event.type}`
  if (typeof subject === 'function') return subject
  if (!isSubject(subject)) throw invalid(`'${String(subject).slice(0, 80)}' is not a valid NATS subject`)
  return () => subject
}

const STREAM_NOT_FOUND = 10_059

function isNotFound(error: unknown): boolean {
  return (error as { code?: unknown } | null)?.code === STREAM_NOT_FOUND
}
