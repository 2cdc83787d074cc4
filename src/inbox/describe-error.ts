import { ERROR_CAUSES_MAX, ERROR_LINE_LENGTH_MAX, ERROR_STACK_LENGTH_MAX } from '../limits.ts'
import { sha256Hex } from '../platform/sha256.ts'

/** An error as a dead letter keeps it. */
export interface Described {
  /** One line. */
  readonly line: string
  /** The same for errors of the same kind from the same place, whatever ids and numbers they carry. */
  readonly fingerprint: string
  /** JSON text: the error and its causes, outermost first. */
  readonly causes: string
}

export function describeError(error: unknown): Described {
  const chain: unknown[] = []
  for (let at: unknown = error; at !== undefined && chain.length < ERROR_CAUSES_MAX; at = causeOf(at)) {
    if (chain.includes(at)) break
    chain.push(at)
  }
  return {
    line: lineOf(error),
    fingerprint: sha256Hex(chain.map(kindOf).join('\n')).slice(0, 12),
    causes: clean(JSON.stringify(chain.map(detailOf))),
  }
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined
}

function lineOf(error: unknown): string {
  const { name, message } = named(error)
  const line = clean(`${name}: ${message}`.replaceAll(/\s+/g, ' '))
  return line.length > ERROR_LINE_LENGTH_MAX ? `${line.slice(0, ERROR_LINE_LENGTH_MAX - 1)}…` : line
}

/** What errors of one kind have in common: no ids, no numbers, no quoted values, no line numbers. */
function kindOf(error: unknown): string {
  const { name, message, code } = named(error)
  const kind = message
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, '#')
    .replaceAll(/'[^']*'|"[^"]*"|`[^`]*`/g, '#')
    .replaceAll(/\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b/gi, '#')
  return `${name} ${code} ${kind} ${placeOf(error)}`
}

/** The function an error came from, without its line: a deploy moves lines. */
function placeOf(error: unknown): string {
  const frame = (error instanceof Error ? error.stack : undefined)?.split('\n').find((line) => /^\s+at /.test(line))
  return (
    frame
      ?.trim()
      .replaceAll(/\(.*\)|:\d+/g, '')
      .trim() ?? ''
  )
}

function detailOf(error: unknown): Record<string, unknown> {
  const { name, message, code } = named(error)
  const stack = error instanceof Error ? error.stack?.slice(0, ERROR_STACK_LENGTH_MAX) : undefined
  return { name, message: message.slice(0, ERROR_STACK_LENGTH_MAX), ...(code === '' ? {} : { code }), stack }
}

function named(error: unknown): { name: string; message: string; code: string } {
  if (!(error instanceof Error)) return { name: 'thrown', message: textOf(error), code: '' }
  const code = (error as { code?: unknown }).code
  return { name: error.name, message: error.message, code: typeof code === 'string' ? code : '' }
}

function textOf(value: unknown): string {
  try {
    return typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value))
  } catch {
    return Object.prototype.toString.call(value)
  }
}

/** PostgreSQL has no place for NUL, in text or in JSON. */
function clean(text: string): string {
  return text.replaceAll('\0', '').replaceAll('\\u0000', '')
}
