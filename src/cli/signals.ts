import type { Observe, Signal } from '../observe/signal.ts'
import { systemClock, type Clock } from '../platform/clock.ts'
import { messagesOf } from '../platform/readable-error.ts'
import { partsOf } from '../store/namespaced/names.ts'
import type { Miscounted } from '../store/retention.ts'
import { shortened } from './report.ts'

/** At most one line of each kind in this time. */
const LINE_MS = 1_000
const REASON_LENGTH_MAX = 300

/** Lines that wait until the next line of their kind may be written. */
interface Waiting {
  line: string
  count: number
  readonly cancel: () => void
}

/** Writes the signals that an operator must see. */
export class SignalLines {
  readonly #tell: (line: string) => void
  readonly #clock: Clock
  readonly #waiting = new Map<string, Waiting>()

  constructor(tell: (line: string) => void, clock: Clock = systemClock) {
    this.#tell = tell
    this.#clock = clock
  }

  readonly observe: Observe = (signal) => {
    const line = newsOf(signal)
    if (line === null) return
    const waiting = this.#waiting.get(signal.kind)
    if (waiting) {
      waiting.line = line
      waiting.count++
    } else {
      this.#tell(line)
      this.#wait(signal.kind)
    }
  }

  /** Writes the lines that still wait. */
  end(): void {
    for (const [kind, { cancel }] of this.#waiting) {
      cancel()
      this.#told(kind)
    }
  }

  #wait(kind: string): void {
    const cancel = this.#clock.after(LINE_MS, () => this.#told(kind) && this.#wait(kind))
    this.#waiting.set(kind, { line: '', count: 0, cancel })
  }

  #told(kind: string): boolean {
    const { line = '', count = 0 } = this.#waiting.get(kind) ?? {}
    this.#waiting.delete(kind)
    if (count > 0) this.#tell(count === 1 ? line : `${line} (and ${count - 1} more)`)
    return count > 0
  }
}

/** Null: no news for an operator. */
function newsOf(signal: Signal): string | null {
  switch (signal.kind) {
    case 'troubled':
      return `trouble in the ${signal.task}: ${reasonOf(signal.error)}`
    case 'advice':
      return `advice: ${shortened(signal.message, REASON_LENGTH_MAX)}`
    case 'parked': {
      const { shard, seq, destination, reason } = signal
      const why = shortened(reason, REASON_LENGTH_MAX)
      return `parked: event ${shard}/${seq} for '${destination}': ${why}. See: effectively-once parked list`
    }
    case 'miscounted':
      return alarmText(signal)
    case 'paused':
    case 'resumed':
      return `the ${signal.task} '${signal.name}' ${signal.kind === 'paused' ? 'is paused' : 'was resumed'}`
    default:
      return null
  }
}

export function alarmText({ segment, shard, stored, destination, acknowledged }: Miscounted): string {
  const { name } = partsOf(destination)
  return `alarm: segment ${segment} of shard ${shard} holds ${stored} events, and '${name}' acknowledged ${acknowledged}. The segment is kept`
}

function reasonOf(error: unknown): string {
  return shortened(messagesOf(error), REASON_LENGTH_MAX)
}
