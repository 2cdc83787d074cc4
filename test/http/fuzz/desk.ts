/** What one process knows of the requests it serves, each by its nonce. */
export interface Note {
  /** How often the handler was called. */
  runs: number
  /** How often it wrote its effect. */
  effects: number
  /** What is around the route, and whether it went on after it. */
  begun: number
  ended: number
  /** Callbacks that are still to come. */
  pending: number
  /** A callback threw what nobody catches: without us the process ends. */
  died: boolean
}

export class Desk {
  readonly #notes = new Map<string, Note>()
  readonly #slow = new Map<string, (() => void)[]>()

  note(nonce: string): Note {
    let note = this.#notes.get(nonce)
    if (!note) {
      note = { runs: 0, effects: 0, begun: 0, ended: 0, pending: 0, died: false }
      this.#notes.set(nonce, note)
    }
    return note
  }

  /** Everything about a case, once nothing of it is pending. */
  async settled(nonce: string): Promise<Note> {
    const note = this.note(nonce)
    for (let turn = 0; turn < SETTLED_TURNS && (note.pending > 0 || note.ended < note.begun); turn++)
      await new Promise((resolve) => setTimeout(resolve, 2))
    this.#notes.delete(nonce)
    this.#slow.delete(nonce)
    return note
  }

  /** A timeout around the handler of a request: called when the handler is slow. */
  impatient(nonce: string, lose: () => void): void {
    const waiting = this.#slow.get(nonce)
    if (waiting) waiting.push(lose)
    else this.#slow.set(nonce, [lose])
  }

  slow(nonce: string): void {
    const waiting = this.#slow.get(nonce) ?? []
    this.#slow.delete(nonce)
    for (const lose of waiting) lose()
  }
}

/** About 0.4 s: what hangs is not waited for. */
const SETTLED_TURNS = 200
