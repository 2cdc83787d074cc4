import { onceError } from '../errors.ts'
import type { Answer } from '../lifecycle/answer.ts'
import type { Request } from '../operation/request.ts'
import { checkStored, type HeaderPairs } from './headers.ts'
import { endOf, isEndNote } from '../stream/head.ts'
import type { Route } from './route.ts'

/** Our own notes are stored as headers. Their names begin with a colon, so no real header can have them. */
const VERSION = ':version'
const SEALED = ':sealed'

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** The stored form of an answer: marked with its version, and encrypted if the route says so. */
export function toStored<Req>(route: Route<Req>, request: Request, plain: Answer): Answer | Promise<Answer> {
  if (!route.seal) return marked(route, plain)
  return sealed(route, request, plain)
}

/**
 * The decrypted answer, and the version that stored it. Everything is checked again, because another program may have
 * written it.
 */
export async function fromStored<Req>(
  route: Route<Req>,
  request: Request,
  stored: Answer,
): Promise<{ readonly answer: Answer; readonly version: string | null }> {
  const { version, keyId, headers } = unmarked(stored)
  if (route.streams !== 'record' && endOf(stored))
    throw onceError('ONCE_UNREPLAYABLE', {
      detail: "The answer is a recorded stream, and this route has no streams: 'record'",
    })
  const answer = keyId === null ? { ...stored, headers } : await opened(route, request, stored, keyId)
  checkStored(answer.headers)
  return { answer, version }
}

/** Splits a stored answer into our own notes and its headers. */
export function unmarked(stored: Answer): {
  readonly version: string | null
  readonly keyId: string | null
  readonly headers: HeaderPairs
} {
  let version: string | null = null
  let keyId: string | null = null
  const headers: (readonly [string, string])[] = []
  for (const pair of stored.headers) {
    if (pair[0] === VERSION) version = pair[1]
    else if (pair[0] === SEALED) keyId = pair[1]
    else if (isEndNote(pair[0])) continue
    else headers.push(pair)
  }
  return { version, keyId, headers }
}

function marked<Req>(route: Route<Req>, answer: Answer): Answer {
  if (route.version === null) return answer
  return { ...answer, headers: [[VERSION, route.version], ...answer.headers] }
}

async function sealed<Req>(route: Route<Req>, request: Request, plain: Answer): Promise<Answer> {
  const head = encoder.encode(JSON.stringify([plain.headers, plain.body === null]))
  const body = plain.body ?? new Uint8Array(0)
  const packed = new Uint8Array(4 + head.byteLength + body.byteLength)
  new DataView(packed.buffer).setUint32(0, head.byteLength)
  packed.set(head, 4)
  packed.set(body, 4 + head.byteLength)
  const made = await route.seal?.seal(packed, bindingOf(request, plain.status))
  if (!made)
    throw onceError('ONCE_INVARIANT', { detail: 'the answer was not encrypted, although the route demands it' })
  return marked(route, { ...plain, headers: [[SEALED, made.keyId]], body: made.bytes })
}

async function opened<Req>(route: Route<Req>, request: Request, stored: Answer, keyId: string): Promise<Answer> {
  if (!route.seal || !stored.body) {
    throw onceError('ONCE_UNREPLAYABLE', { detail: 'The answer is encrypted, and this route has no key for it' })
  }
  const packed = await route.seal.open(keyId, stored.body, bindingOf(request, stored.status))
  const headBytes = new DataView(packed.buffer, packed.byteOffset).getUint32(0)
  const [headers, empty] = JSON.parse(decoder.decode(packed.subarray(4, 4 + headBytes))) as [HeaderPairs, boolean]
  return { ...stored, headers, body: empty ? null : packed.subarray(4 + headBytes) }
}

function bindingOf({ claim }: Request, status: number): string {
  return `eo:answer:1;${claim.id};${claim.fingerprint};${status}`
}
