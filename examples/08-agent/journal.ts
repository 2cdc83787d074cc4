import { appendFileSync, existsSync, readFileSync } from 'node:fs'

type Entry = { conversation: string } | { step: number; answer: string } | { step: number; failed: string }

/** What an agent must not forget, one JSON text per line. A line that a crash cut off is ignored. */
export class Journal {
  readonly answers = new Map<number, string>()
  conversation: string | undefined
  /** Calls without an answer. */
  failures = 0
  readonly #file: string

  constructor(file: string) {
    this.#file = file
    const lines = existsSync(file) ? readFileSync(file, 'utf8').split('\n') : []
    for (const line of lines.slice(0, -1)) this.#read(JSON.parse(line) as Entry)
  }

  begin(conversation: string): string {
    this.#write({ conversation })
    return conversation
  }

  answer(step: number, answer: string): void {
    this.#write({ step, answer })
  }

  failed(step: number, failed: string): void {
    this.#write({ step, failed })
  }

  #write(entry: Entry): void {
    appendFileSync(this.#file, `${JSON.stringify(entry)}\n`)
    this.#read(entry)
  }

  #read(entry: Entry): void {
    if ('conversation' in entry) this.conversation = entry.conversation
    else if ('answer' in entry) this.answers.set(entry.step, entry.answer)
    else this.failures += 1
  }
}
