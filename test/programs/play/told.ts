import { isFinal, isOnceError } from '../../../src/index.ts'
import type { Heard, Told } from '../trace.ts'

/** What a program throws by itself. */
export class Thrown extends Error {
  readonly by: number

  constructor(by: number) {
    super(`thrown by execution ${by}`)
    this.by = by
  }
}

/** An answer of one of the program's handlers: it names the execution that made it. */
export function valueOf(value: unknown): Heard {
  const by = (value as { by?: unknown } | null | undefined)?.by
  return { value: typeof by === 'number' ? by : null }
}

export function errorOf(error: unknown): Heard {
  return { error: toldOf(error) }
}

function toldOf(error: unknown): Told {
  if (error instanceof Thrown) return { kind: 'thrown', by: error.by }
  if (isFinal(error)) {
    const by = (error.body as { by?: unknown } | null | undefined)?.by
    return { kind: 'final', by: typeof by === 'number' ? by : null }
  }
  if (isOnceError(error)) return { kind: 'once', code: error.code }
  const state = sqlStateOf(error)
  if (state !== undefined) return { kind: 'sql', state }
  return { kind: 'other', text: error instanceof Error ? `${error.name}: ${error.message}` : String(error) }
}

/** As both kinds of database spell it: five characters, or SQLite's name. */
function sqlStateOf(error: unknown): string | undefined {
  const code = (error as { code?: unknown } | null | undefined)?.code
  if (typeof code !== 'string') return undefined
  return /^[0-9A-Z]{5}$/.test(code) || /^SQLITE_|^ERR_SQLITE/.test(code) ? code : undefined
}

/** Does the work, and tells what came of it, also when that is an error. */
export async function telling(work: () => Promise<unknown>, tell: (heard: Heard) => void): Promise<void> {
  try {
    tell(valueOf(await work()))
  } catch (error) {
    tell(errorOf(error))
    throw error
  }
}
