import { describeError } from '../platform/describe-error.ts'
import { isApplied, type Fates } from './fate.ts'

/** If this many different messages fail with one error, and none succeeds, the messages are not at fault. */
const MESSAGES = 10

/** Whether everything fails alike, as when a dependency is down. */
export class AlikeFailures {
  #fingerprint = ''
  readonly #messages = new Set<string>()
  #told = false

  /** Returns the error to report, once. 'still': it was already reported. Null: not everything fails alike. */
  after(fates: Fates): Error | 'still' | null {
    let last: unknown
    for (const [{ item }, fate] of fates) {
      if (isApplied(fate)) this.#reset('')
      if (fate.kind !== 'failed') continue
      const { error } = fate
      const { fingerprint } = describeError(error)
      if (fingerprint !== this.#fingerprint) this.#reset(fingerprint)
      if (this.#messages.size < MESSAGES) this.#messages.add(item.id)
      last = error
    }
    if (this.#messages.size < MESSAGES) return null
    if (this.#told) return 'still'
    this.#told = true
    const { line } = describeError(last)
    return new Error(`${MESSAGES} messages failed with the same error, so the consumer waits: ${line}`, { cause: last })
  }

  #reset(fingerprint: string): void {
    this.#fingerprint = fingerprint
    this.#messages.clear()
    this.#told = false
  }
}
