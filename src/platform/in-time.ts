import { systemClock, type Clock } from './clock.ts'

/** Waits for the work, at most this long. Then it rejects with the error of `late`, and the work continues alone. */
export async function inTime<T>(
  work: Promise<T>,
  ms: number,
  late: () => Error,
  clock: Clock = systemClock,
): Promise<T> {
  let cancel = (): void => {}
  const over = new Promise<never>((_, reject) => {
    cancel = clock.after(ms, () => reject(late()))
  })
  try {
    return await Promise.race([work, over])
  } finally {
    cancel()
  }
}
