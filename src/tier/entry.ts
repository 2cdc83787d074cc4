import type { Answer } from '../lifecycle/answer.ts'

/** An entry of another version is not read, so that an upgrade never misreads an answer. */
const VERSION = 1

/** What the cache keeps under a key. It names its record, because a cache may answer with the wrong entry. */
export interface Entry {
  readonly id: string
  readonly life: string
  readonly fingerprint: string
  readonly fingerprintVersion: number
  /** The end of the life, in milliseconds on the epoch's time line. */
  readonly until: number
  readonly answer: Answer
}

type Written = [
  version: number,
  id: string,
  life: string,
  fingerprint: string,
  fingerprintVersion: number,
  until: number,
  status: number,
  headers: Answer['headers'],
  /** Base64. */
  body: string | null,
]

export function written({ id, life, fingerprint, fingerprintVersion, until, answer }: Entry): string {
  const { status, headers, body } = answer
  const bytes = body && Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString('base64')
  const parts: Written = [VERSION, id, life, fingerprint, fingerprintVersion, until, status, headers, bytes]
  return JSON.stringify(parts)
}

/** Undefined: this is no entry of this record. */
export function readEntry(text: string, wanted: string): Entry | undefined {
  const parts = parsed(text)
  if (!Array.isArray(parts) || parts.length !== 9 || parts[0] !== VERSION || parts[1] !== wanted) return undefined
  const [, id, life, fingerprint, fingerprintVersion, until, status, headers, body] = parts as Written
  const isWhole =
    isText(life) &&
    isText(fingerprint) &&
    [fingerprintVersion, until, status].every((number) => Number.isFinite(number)) &&
    Array.isArray(headers) &&
    headers.every((pair) => Array.isArray(pair) && pair.length === 2 && pair.every(isText)) &&
    (body === null || isText(body))
  if (!isWhole) return undefined
  const answer = { status, headers, body: body === null ? null : Buffer.from(body, 'base64'), kept: true }
  return { id, life, fingerprint, fingerprintVersion, until, answer }
}

function isText(part: unknown): part is string {
  return typeof part === 'string'
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
