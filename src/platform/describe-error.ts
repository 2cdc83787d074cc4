import { ERROR_CAUSES_MAX, ERROR_LINE_LENGTH_MAX, ERROR_STACK_LENGTH_MAX } from '../limits.ts'
import { sha256Hex } from './sha256.ts'
import { jsonWith, spell } from './storable.ts'
import { readable, textOf } from './readable-error.ts'

/** An error in the form that a dead letter stores. */
export interface Described {
  /** One line. */
  readonly line: string
  /** Equal for errors of the same kind from the same place, whatever ids and numbers they contain. */
  readonly fingerprint: string
  /** JSON text: the error and its causes, outermost first. */
  readonly causes: string
}

/** Describes any thrown value, in texts that every database can store. */
export function describeError(thrown: unknown): Described {
  const error = readable(thrown)
  const chain: unknown[] = [error]
  for (let at = causeOf(error); at !== undefined && chain.length < ERROR_CAUSES_MAX; at = causeOf(at)) {
    if (chain.includes(at)) break
    chain.push(at)
  }
  return {
    line: lineOf(error),
    fingerprint: sha256Hex(chain.map(kindOf).join('\n')).slice(0, 12),
    causes: jsonWith(spell, chain.map(detailOf)),
  }
}

function causeOf(error: unknown): unknown {
  return error instanceof Error ? error.cause : undefined
}

function lineOf(error: unknown): string {
  const { name, message } = named(error)
  const line = spell(`${name}: ${message}`.replaceAll(/\s+/g, ' '))
  return line.length > ERROR_LINE_LENGTH_MAX ? `${cut(line, ERROR_LINE_LENGTH_MAX - 1)}…` : line
}

/** The common part of errors of one kind: no ids, numbers, quoted values or line numbers. */
function kindOf(error: unknown): string {
  const { name, message, code } = named(error)
  const kind = message
    .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/gi, '#')
    .replaceAll(/'[^']*'|"[^"]*"|`[^`]*`/g, '#')
    .replaceAll(/\b(?:0x)?[0-9a-f]*\d[0-9a-f]*\b/gi, '#')
  return `${name} ${code} ${kind} ${placeOf(error)}`
}

/** The function that an error came from, without its line, because a deployment moves lines. */
function placeOf(error: unknown): string {
  const frame = stackOf(error)
    ?.split('\n')
    .find((line) => /^\s+at /.test(line))
  return (
    frame
      ?.trim()
      .replaceAll(/\(.*\)|:\d+/g, '')
      .trim() ?? ''
  )
}

function detailOf(error: unknown): Record<string, unknown> {
  const { name, message, code } = named(error)
  const stack = stackOf(error)
  return {
    name: cut(name, ERROR_LINE_LENGTH_MAX),
    message: cut(message, ERROR_STACK_LENGTH_MAX),
    ...(code === '' ? {} : { code: cut(code, ERROR_LINE_LENGTH_MAX) }),
    ...(stack === undefined ? {} : { stack: cut(stack, ERROR_STACK_LENGTH_MAX) }),
  }
}

/** The stack may be any value, because programs can change it. */
function stackOf(error: unknown): string | undefined {
  const stack: unknown = error instanceof Error ? error.stack : undefined
  return typeof stack === 'string' ? stack : undefined
}

/** Cuts a text, but not inside a surrogate pair. */
function cut(text: string, max: number): string {
  const end = /[\ud800-\udbff]/.test(text.charAt(max - 1)) ? max - 1 : max
  return text.slice(0, end)
}

function named(error: unknown): { name: string; message: string; code: string } {
  if (!(error instanceof Error)) return { name: 'thrown', message: textOf(error), code: '' }
  const code = (error as { code?: unknown }).code
  return { name: textOf(error.name), message: textOf(error.message), code: typeof code === 'string' ? code : '' }
}
