/** The result of work that may ignore its signal. If the signal aborts first, rejects with its reason. */
export function untilAborted<T>(signal: AbortSignal, work: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    const cut = (): void => reject(signal.reason as Error)
    const done = (): void => signal.removeEventListener('abort', cut)
    signal.addEventListener('abort', cut, { once: true })
    if (signal.aborted) cut()
    work.finally(done).then(resolve, reject)
  })
}
