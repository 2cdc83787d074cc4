/** The fields of a server error. */
export interface Said {
  /** Five characters. A user's own SQL may raise any. */
  readonly state: string
  /** In the server's language, unless the client also has the English one. */
  readonly severity: string | undefined
  /**
   * The server's C function. '': the error has none, so it comes from a pooler. undefined: the client does not report
   * it.
   */
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
    // The code of a system error, such as EPIPE, can look like a SQLSTATE.
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
 * The connection is lost, or was never open. The last statement may or may not have run. The severity decides, not the
 * code, which a user's SQL can raise: only a FATAL error ends a session.
 */
export function isConnectionLost(error: unknown): boolean {
  const said = saidBy(error)
  if (said === undefined) return true
  const { state, severity, routine } = said
  if (severity === 'FATAL' || severity === 'PANIC') return true
  if (routine === RAISE) return false
  // A pooler that lost its server reports this as if it were a server.
  if (state.startsWith('08')) return routine === ''
  // If the severity is not in English, only the code is left.
  return severity !== 'ERROR' && ENDED.has(state)
}

/** The server itself ended a healthy session, because of an operator or a timeout. */
export function isSessionEnded(error: unknown): boolean {
  return isConnectionLost(error) && ENDED.has(sqlStateOf(error) ?? '')
}

/**
 * The error looks as if a session had ended. The server reports it, or the client, which may hide the server's error.
 * Only the connection shows which session.
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

/** The codes of postgres.js, of the socket, and of Prisma. */
const GONE_CODE = /^(?:CONNECTION_[A-Z]+|ECONNRESET|EPIPE|ETIMEDOUT|P1017)$/
/** The messages of pg, of its wrappers, and of Prisma, which has them inside the message of a raw query. */
const GONE_MESSAGE =
  /^(?:Connection terminated|Client (?:has encountered a connection error|was closed))|\bServer has closed the connection\b/

/** A timeout of the transaction or of an idle client ended the session. It has rolled back. */
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

/** The server is a standby, or it or the role makes every transaction read-only. */
export function refusesWrites(error: unknown): boolean {
  const said = saidBy(error)
  return said?.state === '25006' && said.routine !== RAISE
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
