export interface ShrinkOptions<T> {
  /** Every variant with one part less, the largest parts first. */
  smallerThan(one: T): Iterable<T>
  /** Whether a variant still goes wrong in the same way. */
  isWrong(one: T): Promise<boolean>
  readonly attempts: number
  /** No longer than this: what hangs takes its time every time. */
  readonly forMs: number
}

/** The smallest variant we find that still goes wrong: parts are left out, one at a time, as long as that goes. */
export async function shrink<T>(one: T, { smallerThan, isWrong, attempts, forMs }: ShrinkOptions<T>): Promise<T> {
  let smallest = one
  let left = attempts
  const until = Date.now() + forMs
  for (let progress = true; progress && left > 0;) {
    progress = false
    for (const candidate of smallerThan(smallest)) {
      if (left-- <= 0 || Date.now() > until) return smallest
      if (!(await isWrong(candidate))) continue
      smallest = candidate
      progress = true
      break
    }
  }
  return smallest
}
