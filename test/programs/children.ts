import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { programBeside } from '../../scripts/program.ts'
import type { Address } from './bed.ts'
import type { Program } from './program.ts'
import type { Entry } from './trace.ts'

/** What a child is asked for. */
export interface Order {
  readonly program: Program
  readonly name: string
  /** Its trace goes here, entry by entry: what is written is there, whoever dies. */
  readonly file: string
}

const GONE_MS = 15_000

/** Processes that are ready before they are needed. Each plays one program, and most of them die of it. */
export class Children {
  readonly #address: Address
  readonly #directory = mkdtempSync(join(tmpdir(), 'fuzz-traces-'))
  #next: Promise<ChildProcess> | null = null
  #orders = 0

  constructor(address: Address) {
    this.#address = address
  }

  async play(program: Program, name: string): Promise<Entry[]> {
    const next = this.#next ?? this.#start()
    // Before anything is awaited: two lanes never share a child.
    this.#next = this.#start()
    const child = await next
    const file = join(this.#directory, String(this.#orders++))
    const order: Order = { program, name, file }
    const gone = once(child, 'exit')
    const late = setTimeout(() => child.kill('SIGKILL'), GONE_MS)
    child.send(order)
    await gone
    clearTimeout(late)
    const entries = entriesOf(readFileSync(file, 'utf8'))
    rmSync(file)
    // The child ended by itself when its program was over: then nobody was killed.
    if (child.exitCode === 0) return entries
    return [...entries, { is: 'killed' }]
  }

  async close(): Promise<void> {
    const child = await this.#next
    if (child) {
      const gone = once(child, 'exit')
      child.kill('SIGKILL')
      await gone
    }
    rmSync(this.#directory, { recursive: true, force: true })
  }

  async #start(): Promise<ChildProcess> {
    const { file, execArgv } = programBeside(import.meta.url, 'child')
    const child = fork(file, [], {
      execArgv: [...execArgv],
      env: { ...process.env, FUZZ_STORE: this.#address.store, FUZZ_URL: this.#address.url },
    })
    await once(child, 'message')
    return child
  }
}

/** The last line may be half a line. */
function entriesOf(text: string): Entry[] {
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as Entry)
}
