/** The fields of a server error. */
export interface Said {
  /** Five characters. A user's own SQL may raise any. */
  readonly state: string
  /** In the server's language where the client does not say it in English. */
  readonly severity: string | undefined
  /** The server's C function. '': it has none, so it is a pooler's word. undefined: the client does not tell. */
  readonly routine: string | undefined
}

interface Layer {
  readonly code?: unknown
  readonly originalCode?: unknown
  readonly severity?: unknown
  readonly routine?: unknown
  readonly meta?: unknown
  readonly driverAdapterError?: unknown
  readonly cause?: unknown
  readonly clientVersion?: unknown
}

const LAYERS_MAX = 6

/** Finds the server's error inside the error of a client or ORM. Undefined: the server did not fail. */
function saidBy(error: unknown): Said | undefined {
  let current: unknown = error
  for (let depth = 0; depth < LAYERS_MAX && typeof current === 'object' && current !== null; depth++) {
    // A system error's code can look like one of the server's: EPIPE.
    if ('syscall' in current) return undefined
    const layer = current as Layer
    const said = saidIn(layer) ?? saidBy(layer.meta) ?? saidBy(layer.driverAdapterError)
    if (said) return said
    current = layer.cause
  }
  return undefined
}

function saidIn(layer: Layer): Said | undefined {
  // Prisma has its own codes, P1000 to P6999. The server's code is deeper inside.
  if (layer.clientVersion !== undefined) return undefined
  const state = [layer.code, layer.originalCode].find((code) => typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code))
  if (state === undefined) return undefined
  // Prisma's adapter gives the code another name, and drops the routine.
  const routine = textOf(layer.routine) ?? (layer.originalCode === undefined ? '' : undefined)
  return { state: state as string, severity: textOf(layer.severity), routine }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** The SQLSTATE, five characters. */
export function sqlStateOf(error: unknown): string | undefined {
  return saidBy(error)?.state
}

/** Whether a PL/pgSQL function raised the code. Then the code says nothing about the server. */
export function isRaised(error: unknown): boolean {
  return saidBy(error)?.routine === RAISE
}

const RAISE = 'exec_stmt_raise'
const ENDED = new Set(['57P01', '57P02', '57P03', '57P05', '25P03', '25P04'])

/**
 * The connection is gone (or was never there): what was sent last may or may not have happened. The severity tells, not
 * the code, which a user can raise: only what is FATAL ends a session.
 */
export function isConnectionLost(error: unknown): boolean {
  const said = saidBy(error)
  if (said === undefined) return true
  const { state, severity, routine } = said
  if (severity === 'FATAL' || severity === 'PANIC') return true
  if (routine === RAISE) return false
  // A pooler that lost its server says so as if it were one.
  if (state.startsWith('08')) return routine === ''
  // In another language than English only the code is left.
  return severity !== 'ERROR' && ENDED.has(state)
}

/** The server itself ended a session that was well: for an operator, or for a timeout. */
export function isSessionEnded(error: unknown): boolean {
  return isConnectionLost(error) && ENDED.has(sqlStateOf(error) ?? '')
}

/**
 * It sounds as if a session had ended: by its server's word, or by its client's, which may keep the server's to itself.
 * Whose session, the connection tells.
 */
export function soundsEnded(error: unknown): boolean {
  return saidBy(error) === undefined ? soundsGone(error) : isConnectionLost(error)
}

function soundsGone(error: unknown): boolean {
  let current: unknown = error
  for (let depth = 0; depth < LAYERS_MAX && typeof current === 'object' && current !== null; depth++) {
    const { code, message, cause } = current as { code?: unknown; message?: unknown; cause?: unknown }
    if (typeof code === 'string' && GONE_CODE.test(code)) return true
    if (typeof message === 'string' && GONE_MESSAGE.test(message)) return true
    current = cause
  }
  return false
}

/** postgres.js, the socket's own, and Prisma. */
const GONE_CODE = /^(?:CONNECTION_[A-Z]+|ECONNRESET|EPIPE|ETIMEDOUT|P1017)$/
/** pg, whoever stands around it, and Prisma, which tells it of a raw query in the middle of its message. */
const GONE_MESSAGE =
  /^(?:Connection terminated|Client (?:has encountered a connection error|was closed))|\bServer has closed the connection\b/

/** A timeout ended the session: of the transaction, or of a client that let it rest. It has rolled back. */
export function isTimedOut(error: unknown): boolean {
  const state = sqlStateOf(error)
  return (state === '25P04' || state === '25P03') && isConnectionLost(error)
}

/** Whether the whole transaction may run again: a serialization failure, a deadlock, or an error that is marked so. */
export function isTransient(error: unknown): boolean {
  const state = sqlStateOf(error)
  return state === '40001' || state === '40P01' || isMarked(error)
}

const marked = new WeakSet<object>()

/** Marks an error as transient, because the statement was not at fault and may succeed the next time. */
export function markTransient(error: unknown): void {
  if (typeof error === 'object' && error !== null) marked.add(error)
}

function isMarked(error: unknown): boolean {
  let current: unknown = error
  for (let depth = 0; depth < LAYERS_MAX && typeof current === 'object' && current !== null; depth++) {
    if (marked.has(current)) return true
    current = (current as { cause?: unknown }).cause
  }
  return false
}

/** A pooler between us and the server does not keep prepared statements. */
export function isPreparedStatementLost(error: unknown): boolean {
  const said = saidBy(error)
  return (said?.state === '42P05' || said?.state === '26000') && said.routine !== RAISE
}

/** Whether a table changed and a prepared statement returns other columns. It must be prepared again. */
export function isPlanStale(error: unknown): boolean {
  const said = saidBy(error)
  return said?.state === '0A000' && said.routine === 'RevalidateCachedQuery'
}
