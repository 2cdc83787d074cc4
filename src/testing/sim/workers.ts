import { fork } from 'node:child_process'

const SHIFT = '--shift'

type Message<D> = { readonly kind: 'progress'; readonly done: number } | { readonly kind: 'done'; readonly result: D }

/** Starts the main file again in a child process. A thread would not inherit the loader. */
export function apart<D>(
  shift: object,
  progress: (done: number) => void,
  program: string = process.argv[1]!,
): Promise<D> {
  return new Promise((resolve, reject) => {
    const child = fork(program, [SHIFT])
    child.on('message', (message: Message<D>) => {
      if (message.kind === 'progress') progress(message.done)
      else resolve(message.result)
    })
    child.on('error', reject)
    child.on('exit', (code) => reject(new Error(`a worker ended with code ${code}`)))
    child.send(shift)
  })
}

export function isWorker(): boolean {
  return process.argv[2] === SHIFT
}

/** Waits for a shift, does the work and reports the result. */
export function serve(work: (shift: never, progress: (done: number) => void) => Promise<unknown>): void {
  const tell = (message: Message<unknown>, then?: () => void): void =>
    void process.send?.(message, undefined, undefined, then)
  process.once('message', (shift) => {
    void work(shift as never, (done) => tell({ kind: 'progress', done })).then((result) =>
      tell({ kind: 'done', result }, () => process.disconnect()),
    )
  })
}

/** Prints one line a second with the progress of all workers together. */
export function progressOf(workers: number, total: number, unit: string): (worker: number, done: number) => void {
  const counts = Array.from({ length: workers }, () => 0)
  const startedAt = performance.now()
  let shownAt = 0
  return (worker, done) => {
    counts[worker] = done
    const now = performance.now()
    if (now - shownAt < 1_000) return
    shownAt = now
    const sum = counts.reduce((a, b) => a + b, 0)
    process.stderr.write(`${sum} of ${total} ${unit}, ${Math.round(sum / ((now - startedAt) / 1000))}/s\n`)
  }
}
