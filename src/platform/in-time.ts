import { systemClock, type Clock } from './clock.ts'

/** What comes of the work, or what `late` says when it takes longer: nobody waits for it any more. */
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
