import { onceError } from '../errors.ts'
import type { Enclosing } from './enclosing.ts'

/** The handlers that run at this moment: a close that cannot wait any longer ends them. */
export class RunningHandlers {
  readonly #running = new Set<Enclosing>()
  #isCut = false

  /** True: nothing begins any more. */
  get isCut(): boolean {
    return this.#isCut
  }

  add(enclosing: Enclosing): void {
    if (this.#isCut) enclosing.end(cutOff())
    else this.#running.add(enclosing)
  }

  delete(enclosing: Enclosing): void {
    this.#running.delete(enclosing)
  }

  /**
   * Revokes their handles and aborts their signals, so that they commit nothing. A handler that starts later ends at
   * once.
   */
  cut(): void {
    this.#isCut = true
    for (const enclosing of this.#running) enclosing.end(cutOff())
  }
}

export function cutOff(): Error {
  return onceError('ONCE_CLOSED', {
    detail: 'This instance was closed before the operation ended; nothing was committed',
  })
}
