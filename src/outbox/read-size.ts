/** The first read is small, because the size of the events is unknown. */
const FIRST_BYTES_EACH: number = 64 * 1024
const EVENTS_MIN = 8

/** How many events to ask for, by the size of the last ones. The store reads all of them before it cuts by bytes. */
export class ReadSize {
  #bytesEach = FIRST_BYTES_EACH

  /** The number of events that have about this many bytes. */
  limit(events: number, bytes: number): number {
    return Math.max(Math.min(events, EVENTS_MIN), Math.min(events, Math.floor(bytes / this.#bytesEach)))
  }

  learn(events: readonly { readonly payload: string | null }[]): void {
    if (events.length === 0) return
    let bytes = 0
    for (const { payload } of events) bytes += payload?.length ?? 0
    this.#bytesEach = Math.max(1, bytes / events.length)
  }
}
