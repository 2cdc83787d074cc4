/** The data of the plots: the points of the last minute. */
export interface Point {
  readonly at: number
  /** Per second. */
  readonly requests: number
  readonly replays: number
  readonly conflicts: number
  /** The age of the oldest event without a receipt. */
  readonly lagMs: number
}

export interface Totals {
  readonly requests: number
  readonly replays: number
  readonly conflicts: number
}

const POINTS_KEPT = 120
const POINT_MS = 500

export class Series {
  readonly points: Point[] = []
  #before: { readonly at: number; readonly totals: Totals } | undefined

  /** Adds a point at most twice a second, however often it is called. */
  add(at: number, totals: Totals, lagMs: number): void {
    const before = (this.#before ??= { at, totals: { ...totals } })
    const seconds = (at - before.at) / 1_000
    if (seconds * 1_000 < POINT_MS) return
    const rate = (name: keyof Totals): number => (totals[name] - before.totals[name]) / seconds
    this.points.push({ at, requests: rate('requests'), replays: rate('replays'), conflicts: rate('conflicts'), lagMs })
    if (this.points.length > POINTS_KEPT) this.points.shift()
    this.#before = { at, totals: { ...totals } }
  }
}
