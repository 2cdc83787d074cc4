import { SQS_BATCH, SQS_ENTRIES_MAX, SQS_REQUESTS_MAX } from './limits.ts'
import { lanesOf } from '../../sink/lanes.ts'
import { SENT, type OutgoingEvent, type SendOptions, type Sink, type Verdict } from '../../sink/sink.ts'
import { eachOf, isNotFound, type BatchAnswer, type BatchFailure } from './client.ts'
import { messageOf, type AwsMessage } from './message.ts'

/** The calls of one service, SQS or SNS. */
export interface BatchService {
  readonly name: string
  readonly system: string
  /** One queue or topic for all events, or a function of the event. */
  readonly to: string | ((event: OutgoingEvent) => string)
  /** Throws if this is no queue or topic. */
  check(place: unknown): string
  /** The most bytes of a message and of a request. */
  bytesMax(): { readonly message: number; readonly request: number }
  readonly properties: () => Pick<Sink, 'proves' | 'dedupes' | 'orders'>
  open(): Promise<readonly string[]>
  send(place: string, messages: readonly AwsMessage[], signal: AbortSignal): Promise<BatchAnswer>
}

interface Due {
  readonly index: number
  readonly place: string
  readonly message: AwsMessage
}

/** A sink of requests with up to ten events, no two of them of the same aggregate: each entry may fail alone. */
export function batchSink(service: BatchService): Sink {
  return {
    name: service.name,
    system: service.system,
    get proves() {
      return service.properties().proves
    },
    get dedupes() {
      return service.properties().dedupes
    },
    get orders() {
      return service.properties().orders
    },
    batch: SQS_BATCH,
    open: () => service.open(),
    async send(events, options) {
      const verdicts: (Verdict | undefined)[] = []
      let lanes = lanesOf(events)
      while (lanes.length > 0 && options.mayBegin?.() !== false) {
        options.signal.throwIfAborted()
        await sendFirsts(service, { events, lanes, verdicts, options })
        lanes = lanes.flatMap(([first = 0, ...behind]) => {
          const verdict = verdicts[first]
          if (verdict?.kind === 'sent') return behind.length > 0 ? [behind] : []
          // Later events of the aggregate must not overtake the failed one.
          for (const index of behind) verdicts[index] = verdict
          return []
        })
      }
      return verdicts as Verdict[]
    },
  }
}

/** Sends the first event of each lane. */
async function sendFirsts(
  service: BatchService,
  { events, lanes, verdicts, options }: {
    readonly events: readonly OutgoingEvent[]
    readonly lanes: readonly (readonly number[])[]
    readonly verdicts: (Verdict | undefined)[]
    readonly options: SendOptions
  }, // prettier-ignore
): Promise<void> {
  const due: Due[] = []
  for (const [index = 0] of lanes) {
    try {
      const event = events[index] as OutgoingEvent
      const place = service.check(typeof service.to === 'string' ? service.to : service.to(event))
      const message = messageOf(event, place)
      const { message: most } = service.bytesMax()
      if (message.bytes <= most) due.push({ index, place, message })
      else verdicts[index] = failed(new Error(`the event has ${message.bytes} bytes; ${place} takes ${most}`), false)
    } catch (error) {
      verdicts[index] = failed(error, true)
    }
  }
  let down: { readonly error: unknown } | undefined
  const tell = (index: number, verdict: Verdict): void => {
    verdicts[index] = verdict
    if (verdict.kind === 'sent') options.told?.(index, verdict)
  }
  const send = async (request: readonly Due[]): Promise<void> => {
    try {
      const [{ place }] = request as readonly [Due]
      const messages = request.map(({ message }) => message)
      const answer = await service.send(place, messages, options.signal)
      for (const [at, { index }] of request.entries()) tell(index, verdictOf(answer, at))
    } catch (error) {
      if (isRefusal(error) && request.length > 1) for (const one of request) await send([one])
      else if (isRefusal(error)) for (const { index } of request) tell(index, failed(error, false))
      // Only the events of a queue that a function chose wrongly fail. If every queue is missing, AWS is at fault.
      else if (isNotFound(error) && typeof service.to !== 'string') {
        for (const { index } of request) tell(index, { ...failed(error, true), perhapsDown: true })
      } else down ??= { error }
    }
  }
  await eachOf(packed(due, service.bytesMax().request), SQS_REQUESTS_MAX, async (request) => {
    if (!down && options.mayBegin?.() !== false) await send(request)
  })
  if (down) throw down.error
}

/** Requests to one queue each, with at most ten messages and this many bytes. */
function packed(due: readonly Due[], bytesMax: number): Due[][] {
  const requests: Due[][] = []
  const open = new Map<string, { request: Due[]; bytes: number }>()
  for (const one of due) {
    const last = open.get(one.place)
    const { bytes } = one.message
    if (last && last.request.length < SQS_ENTRIES_MAX && last.bytes + bytes <= bytesMax) {
      last.request.push(one)
      last.bytes += bytes
    } else {
      const request = [one]
      requests.push(request)
      open.set(one.place, { request, bytes })
    }
  }
  return requests
}

function verdictOf({ Successful = [], Failed = [] }: BatchAnswer, at: number): Verdict {
  const id = String(at)
  if (Successful.some(({ Id }) => Id === id)) return SENT
  const failure = Failed.find(({ Id }) => Id === id)
  if (!failure) return failed(new Error('the answer of AWS has no verdict for the event'), true)
  const { Code = 'unknown', Message = '' } = failure
  const error = new Error(`${Code}: ${Message}`)
  if (isEventsFault(failure)) return failed(error, false)
  return { ...failed(error, true), perhapsDown: true }
}

/** AWS also blames the sender for limits and for keys that the sender may not use. They are not the event's fault. */
function isEventsFault({ SenderFault, Code = '' }: BatchFailure): boolean {
  return SenderFault === true && !/throttl|kms|denied|overlimit|security|token/i.test(Code)
}

/** The whole request was refused for what is in a message. */
function isRefusal(error: unknown): boolean {
  const { name } = (error ?? {}) as { name?: unknown }
  return /TooLong|InvalidMessageContents/.test(String(name))
}

function failed(error: unknown, retryable: boolean): Verdict & { readonly kind: 'failed' } {
  return { kind: 'failed', error, retryable }
}
