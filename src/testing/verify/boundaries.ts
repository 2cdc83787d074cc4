import type { Boundary, Kill, Side } from './boundary.ts'

const BOTH: readonly Side[] = ['before', 'after']
const BEFORE: readonly Side[] = ['before']

/** Numbers the boundaries that a handler passes, and kills this process at the chosen one. */
export class Boundaries {
  readonly #seen: (boundary: Boundary) => void
  readonly #die: () => void
  readonly #counts = new Map<string, number>()
  #kill: Kill | null = null
  #isOpen = false
  /** The label of the last boundary. */
  last = ''

  constructor(seen: (boundary: Boundary) => void, die: () => void) {
    this.#seen = seen
    this.#die = die
  }

  /** Counts from now on, until `close`. */
  open(kill: Kill | null): void {
    this.#counts.clear()
    this.#kill = kill
    this.#isOpen = true
  }

  close(): void {
    this.#isOpen = false
  }

  /** Call this right before something happens, and the returned function right after it. */
  pass(label: string): () => void {
    return this.#pass(label, BOTH)
  }

  /** Marks a boundary after which the handler does nothing more. */
  end(label: string): void {
    this.#pass(label, BEFORE)
  }

  async around<T>(label: string, call: () => Promise<T>): Promise<T> {
    const passed = this.pass(label)
    const value = await call()
    passed()
    return value
  }

  #pass(label: string, sides: readonly Side[]): () => void {
    if (!this.#isOpen) return () => {}
    const nth = (this.#counts.get(label) ?? 0) + 1
    this.#counts.set(label, nth)
    this.last = label
    this.#seen({ label, nth, sides })
    const reached = (side: Side): void => {
      const kill = this.#isOpen ? this.#kill : null
      if (kill?.label === label && kill.nth === nth && kill.side === side) this.#die()
    }
    reached('before')
    return () => reached('after')
  }
}
