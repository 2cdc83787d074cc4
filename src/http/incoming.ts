import { onceError } from '../errors.ts'
import { fingerprintRequest } from '../key/fingerprint-request.ts'
import { checkDigest } from '../key/digest-field.ts'
import { parseKeyHeader } from '../key/header.ts'
import { newUuid } from '../platform/uuid.ts'
import type { Route } from './route.ts'

/** One request of any framework, with its complete body. */
export interface Incoming<Req> {
  readonly method: string
  /** Path and query as the client sent them, before any router cut a prefix off. */
  readonly target: string
  /** The route's pattern, for messages and metrics. There are few of them. */
  readonly pattern: string
  /** The argument of `scope()` and `onReplay()`. */
  readonly request: Req
  header(name: string): string | undefined
  /** The bytes after content-decoding, if they are available. */
  readonly body: Uint8Array | string | undefined
  /** The result of a body parser, if the bytes are gone. */
  readonly parsed: unknown
  /** The client's digest, which was checked, replaces the body in the fingerprint. */
  readonly digested?: boolean
  /** The bytes have a content coding that could not be decoded, so they are compared as bytes. */
  readonly coded?: boolean
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

/** The key of a request. If the route does not require a key and there is none, the request gets a unique one. */
export function keyOf<Req>(route: Route<Req>, values: readonly string[] | undefined): string {
  if (values === undefined || values.length === 0) {
    if (!route.required) return newUuid()
    throw onceError('ONCE_KEY_MISSING', { detail: `This operation needs the header ${route.header}` })
  }
  if (values.length > 1) throw onceError('ONCE_KEY_TWICE')
  const key = parseKeyHeader(values[0] as string)
  const { keyFormat } = route
  if (keyFormat === 'any') return key
  if (keyFormat === 'uuid' ? UUID.test(key) : key.length >= keyFormat.minLength) return key
  const wanted = keyFormat === 'uuid' ? 'a UUID' : `at least ${keyFormat.minLength} characters long`
  throw onceError('ONCE_KEY_INVALID', { detail: `The idempotency key must be ${wanted}` })
}

export function scopeOf<Req>(route: Route<Req>, { request, method, target }: Incoming<Req>): string {
  if (route.scope === 'global') return 'global'
  const scope: unknown = route.scope(request)
  if (typeof scope === 'string' && scope !== '') return scope
  // The promise is refused as a value. Handle its rejection, which would end the process.
  if (scope instanceof Promise) scope.catch(() => {})
  const returned = scope === '' ? "''" : scope === null || scope === undefined ? String(scope) : `a ${typeof scope}`
  throw onceError('ONCE_SCOPE_EMPTY', {
    detail: `scope() returned ${returned} for ${method} ${pathOf(target).path}; one user could replay another's answer. Return a string or set 'global'`,
  })
}

export function fingerprintOf<Req>(route: Route<Req>, incoming: Incoming<Req>): string {
  const { method, target, body, parsed } = incoming
  const { path, query } = pathOf(target)
  const headers: Record<string, string | undefined> = {}
  if (incoming.coded) headers['content-encoding'] = incoming.header('content-encoding')
  for (const name of route.fingerprintHeaders) headers[name] = incoming.header(name)
  return fingerprintRequest({
    method,
    path,
    query,
    contentType: incoming.coded ? undefined : incoming.header('content-type'),
    headers,
    ignore: route.ignore,
    ...(incoming.digested ? { digest: digestOf(incoming) } : { body, parsed }),
  })
}

/** Whether the body matches its digest. Undefined: there is no digest. */
export function digestCheck(header: Incoming<never>['header']): ((wire: Uint8Array) => Promise<boolean>) | undefined {
  const digest = digestOf({ header })
  if (digest === undefined) return undefined
  return async (wire) => {
    await checkDigest(digest, wire)
    return true
  }
}

/** The client's own digest of the body, if the route accepts it. */
function digestOf<Req>({ header }: Pick<Incoming<Req>, 'header'>): string | undefined {
  return header('repr-digest') ?? header('content-digest')
}

const ORIGIN = /^[^:/?#]+:\/\/[^/?#]*/

function pathOf(target: string): { readonly path: string; readonly query: string } {
  // Proxies get the URL in absolute form. The host is not part of the request's meaning.
  const from = target.startsWith('/') ? 0 : (ORIGIN.exec(target)?.[0].length ?? 0)
  const hash = indexOrEnd(target, '#', from)
  const mark = Math.min(indexOrEnd(target, '?', from), hash)
  return { path: target.slice(from, mark) || '/', query: target.slice(mark + 1, hash) }
}

function indexOrEnd(text: string, what: string, from: number): number {
  const at = text.indexOf(what, from)
  return at < 0 ? text.length : at
}
