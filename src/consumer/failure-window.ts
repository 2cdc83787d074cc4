import { REDRIVE_WINDOW, REDRIVE_WINDOW_MIN } from '../limits.ts'

/** Counts how many of the last letters failed. */
export class FailureWindow {
  readonly #last: boolean[] = []

  add(failed: boolean): void {
    this.#last.push(failed)
    if (this.#last.length > REDRIVE_WINDOW) this.#last.shift()
  }

  /** Null if there are too few letters. */
  share(): { readonly failed: number; readonly of: number } | null {
    const of = this.#last.length
    return of < REDRIVE_WINDOW_MIN ? null : { failed: this.#last.filter(Boolean).length, of }
  }
}
