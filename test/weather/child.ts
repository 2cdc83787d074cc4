import '../broker/support/with-parent.ts'
import { createInterface } from 'node:readline'
import type { Signal } from '../../src/index.ts'

const TELL_MS = 400
const START_AGAIN_MS = 500

/** A status report of a process, sent from time to time as one line of JSON. */
export interface Word {
  /** The process has started its work. */
  readonly ready?: true
  /** The number of events sent, messages settled, or operations committed. */
  readonly done: number
  /** The number of failures that the process has reported. */
  readonly troubles: number
  readonly last: string
}

export type Command = 'fail' | 'well' | `clock ${number}`

let done = 0
let troubles = 0
let last = ''
let ready = false
let told = ''
setInterval(tell, TELL_MS).unref()

function tell(): void {
  const word: Word = { ...(ready ? { ready } : {}), done, troubles, last }
  const line = JSON.stringify(word)
  if (line === told) return
  told = line
  process.stdout.write(`${line}\n`)
}

export function progressed(count: number): void {
  done += count
}

export function troubled(what: string, error: unknown): void {
  troubles++
  last = `${what}: ${error instanceof Error ? error.message : String(error)}`.slice(0, 300)
}

/** Counts the signals that an operator could have seen. */
export function observe(signal: Signal): void {
  if (signal.kind === 'sent') progressed(signal.events)
  else if (signal.kind === 'consumed') progressed(signal.messages)
  else if (signal.kind === 'troubled') troubled(signal.task, signal.error)
  else if (signal.kind === 'failed') troubled('failed', signal.error)
  else if (signal.kind === 'parked' || signal.kind === 'deadLetter') troubled(signal.kind, signal.reason)
}

/** Retries a failed start, as a service manager would. */
export async function begin(start: () => Promise<unknown>): Promise<void> {
  for (;;) {
    try {
      await start()
      ready = true
      return
    } catch (error) {
      troubled('start', error)
      await new Promise((resolve) => setTimeout(resolve, START_AGAIN_MS))
    }
  }
}

export function onCommand(obey: (command: Command) => void): void {
  createInterface({ input: process.stdin }).on('line', (line) => {
    const [word, value] = line.split(' ')
    if (word === 'clock') stepClock(Number(value))
    else obey(line as Command)
  })
}

/** Handles a deployment: SIGTERM ends the running work in order. */
export function onDeploy(end: () => Promise<unknown>): void {
  process.once('SIGTERM', () => {
    end()
      .catch((error: unknown) => troubled('end', error))
      .finally(() => {
        tell()
        process.exit(0)
      })
  })
}

const SystemDate = Date

/** Makes the wall clock of this process jump. Timers do not jump, because they follow the monotonic clock. */
function stepClock(ms: number): void {
  class SteppedDate extends SystemDate {
    constructor(...given: unknown[]) {
      if (given.length === 0) super(SystemDate.now() + ms)
      else super(...(given as [number]))
    }
    static override now(): number {
      return SystemDate.now() + ms
    }
  }
  globalThis.Date = SteppedDate as DateConstructor
}
