/** Nobody knows how large events are: the first read is a small one. */
const FIRST_BYTES_EACH: number = 64 * 1024
const EVENTS_MIN = 8

/** How many events are worth asking for, by what the last ones had: the store would look at all of them for nothing. */
export class ReadSize {
  #bytesEach = FIRST_BYTES_EACH

  /** So many that they have about so many bytes. */
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
