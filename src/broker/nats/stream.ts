import type { Duration } from '../../duration.ts'
import { invalid } from '../../options.ts'
import type { Sink } from '../../sink/sink.ts'

/** The settings of a stream that are checked. */
export interface NatsStreamInfo {
  readonly config: {
    readonly name: string
    readonly subjects?: readonly string[]
    readonly storage: string
    readonly num_replicas: number
    /** Nanoseconds. */
    readonly duplicate_window?: number
    readonly retention: string
    readonly discard: string
    readonly max_msgs: number
    readonly max_bytes: number
    /** Nanoseconds. */
    readonly max_age: number
    readonly no_ack?: boolean
    readonly sealed?: boolean
  }
}

export interface StreamJudgement {
  readonly proves: Sink['proves']
  readonly dedupes: Sink['dedupes']
  readonly subjects: readonly string[]
  readonly warnings: readonly string[]
}

const REPLICAS_QUORUM = 3
const WINDOW_MS_ENOUGH = 120_000
const NANOS_PER_MS = 1_000_000

/** What an acknowledgement of this stream proves, and which settings weaken it. */
export function judgeStream(
  { config }: NatsStreamInfo,
  options: { readonly syncAlways: boolean; readonly example: string | undefined },
): StreamJudgement {
  const { name, subjects = [], storage, num_replicas: replicas } = config
  if (config.no_ack) throw invalid(`the stream '${name}' has no_ack set: it acknowledges nothing`)
  if (config.sealed) throw invalid(`the stream '${name}' is sealed: it accepts no events`)
  if (options.example !== undefined && !covers(subjects, options.example)) {
    const all = subjects.join(', ')
    throw invalid(`the stream '${name}' accepts ${all}, not '${options.example}'; set subject, or add it to the stream`)
  }
  const windowMs = Math.floor((config.duplicate_window ?? 0) / NANOS_PER_MS)
  return {
    proves: provesOf(config, options.syncAlways),
    dedupes: windowMs > 0 ? (`${windowMs}ms` satisfies Duration) : false,
    subjects,
    warnings: [...durability(), ...deduplication(), ...forgetting()],
  }

  function* durability(): Generator<string> {
    if (storage === 'memory') yield `storage is memory: a restart loses every event of the stream '${name}'`
    else if (!options.syncAlways) {
      yield 'sync_interval cannot be read from here; its default is 2 minutes. A power loss loses the events acknowledged since the last sync. Set sync_interval: always and pass syncAlways: true'
    }
    if (replicas < REPLICAS_QUORUM) yield `num_replicas is ${replicas}: the loss of a machine can lose events. Set 3`
  }

  function* deduplication(): Generator<string> {
    if (windowMs < WINDOW_MS_ENOUGH) {
      yield `duplicate_window is ${windowMs} ms: an event that a relay sends again after a longer outage arrives twice`
    }
  }

  function* forgetting(): Generator<string> {
    if (config.retention === 'interest') yield 'retention is interest: NATS drops an event that no consumer waits for'
    const limits = [config.max_msgs > 0 && 'max_msgs', config.max_bytes > 0 && 'max_bytes'].filter(Boolean)
    if (limits.length > 0 && config.discard === 'old') {
      yield `discard is old with ${limits.join(' and ')}: a full stream drops events that nobody has read`
    }
    if (config.max_age > 0) yield 'max_age is set: NATS drops older events, even unread ones'
  }
}

function provesOf(config: NatsStreamInfo['config'], syncAlways: boolean): Sink['proves'] {
  if (config.num_replicas >= REPLICAS_QUORUM) return 'replicated'
  return config.storage !== 'memory' && syncAlways ? 'flushed' : 'accepted'
}

/** Whether one of a stream's subjects covers this one. `*` matches one token, `>` all that follow. */
export function covers(subjects: readonly string[], subject: string): boolean {
  const tokens = subject.split('.')
  return subjects.some((pattern) => {
    const parts = pattern.split('.')
    const rest = parts.indexOf('>')
    if (rest === -1 ? parts.length !== tokens.length : tokens.length <= rest) return false
    return parts.slice(0, rest === -1 ? undefined : rest).every((part, at) => part === '*' || part === tokens[at])
  })
}

/** Whether events can be published to this subject: tokens without spaces and wildcards. */
export function isSubject(subject: unknown): subject is string {
  return typeof subject === 'string' && /^[^\s.*>]+(\.[^\s.*>]+)*$/.test(subject)
}
