/** The five characters that say what went wrong, wherever the client or ORM hid them. */
export function sqlStateOf(error: unknown): string | undefined {
  let current: unknown = error
  for (let depth = 0; depth < 6 && typeof current === 'object' && current !== null; depth++) {
    // A system error's code can look like one of ours: EPIPE.
    if ('syscall' in current) return undefined
    const layer = current as {
      code?: unknown
      meta?: unknown
      cause?: unknown
      originalCode?: unknown
      driverAdapterError?: unknown
    }
    for (const code of [layer.code, layer.originalCode]) {
      if (typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^P\d{4}$/.test(code)) return code
    }
    const inMeta = sqlStateOf(layer.meta)
    if (inMeta) return inMeta
    const inAdapter = sqlStateOf(layer.driverAdapterError)
    if (inAdapter) return inAdapter
    current = layer.cause
  }
  return undefined
}

const BROKEN = new Set(['57P01', '57P02', '57P03', '57P05', '25P03', '25P04'])

/** The connection is gone (or was never there): what was sent last may or may not have happened. */
export function isConnectionLost(error: unknown): boolean {
  const state = sqlStateOf(error)
  if (state === undefined) return true
  return state.startsWith('08') || BROKEN.has(state)
}

/** Worth running the whole transaction again: serialization failure, deadlock, what was marked so. */
export function isTransient(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state === '40001' || state === '40P01' || isMarked(error)
}

const marked = new WeakSet<object>()

/** What was no fault of the statement, and will not happen again. */
export function markTransient(error: unknown): void {
  if (typeof error === 'object' && error !== null) marked.add(error)
}

function isMarked(error: unknown): boolean {
  let current: unknown = error
  for (let depth = 0; depth < 6 && typeof current === 'object' && current !== null; depth++) {
    if (marked.has(current)) return true
    current = (current as { cause?: unknown }).cause
  }
  return false
}

/** A pooler between us and the server does not keep prepared statements. */
export function isPreparedStatementLost(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state === '42P05' || state === '26000'
}
