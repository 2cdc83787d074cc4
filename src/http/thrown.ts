/**
 * Handlers of some hosts throw answers: Next.js, Remix, React Router, SvelteKit, h3. A thrown answer counts like a
 * returned one. Null: the thrown value is an error.
 */
export function thrownAnswer(thrown: unknown): Response | null {
  if (typeof thrown !== 'object' || thrown === null) return null
  if (thrown instanceof Response) return thrown
  const of = thrown as Record<string, unknown>
  if (typeof of['digest'] === 'string') return ofNext(of['digest'])
  if (of['type'] === 'DataWithResponseInit') return Response.json(of['data'], initOf(of['init']))
  const status = of['status'] ?? of['statusCode']
  if (typeof status !== 'number' || !Number.isInteger(status)) return null
  return ofH3(thrown, of, status) ?? (thrown instanceof Error ? null : ofKit(of, status))
}

/** A redirect or an error of SvelteKit. Neither is an `Error`, unlike what an HTTP client throws about its own call. */
function ofKit(of: Record<string, unknown>, status: number): Response | null {
  const { location, body } = of
  if (status >= 300 && status <= 308 && typeof location === 'string') return redirectTo(location, status)
  return isError(status) && isMessage(body) ? Response.json(body, { status }) : null
}

/** The answer of h3 to its own errors. Version 2 builds it, and version 1 leaves it to its host. */
function ofH3(thrown: object, of: Record<string, unknown>, status: number): Response | null {
  if (!isError(status)) return null
  const made: { __h3_error__?: unknown; name?: unknown } | undefined = thrown.constructor
  if (made?.__h3_error__ === true) {
    const { statusMessage, data } = of
    const body = JSON.stringify({ statusCode: status, statusMessage, stack: [], data }, undefined, 2)
    return new Response(body, { status, headers: { 'content-type': 'application/json' } })
  }
  if (made?.name !== 'HTTPError' || typeof of['toJSON'] !== 'function') return null
  const headers = new Headers(of['headers'] instanceof Headers ? of['headers'] : undefined)
  if (!headers.has('content-type')) headers.set('content-type', 'application/json;charset=UTF-8')
  return new Response(JSON.stringify(thrown), { status, headers })
}

/** `NEXT_REDIRECT;replace;/path;307;`, `NEXT_HTTP_ERROR_FALLBACK;404`, and `NEXT_NOT_FOUND` of older versions. */
function ofNext(digest: string): Response | null {
  const [kind, ...parts] = digest.split(';')
  if (kind === 'NEXT_NOT_FOUND') return new Response(null, { status: 404 })
  if (kind === 'NEXT_HTTP_ERROR_FALLBACK') {
    const status = Number(parts[0])
    return isError(status) ? new Response(null, { status }) : null
  }
  if (kind !== 'NEXT_REDIRECT') return null
  // The address may contain a semicolon.
  const status = Number(parts.at(-2))
  const location = parts.slice(1, -2).join(';')
  return status >= 300 && status <= 308 && location !== '' ? redirectTo(location, status) : null
}

function redirectTo(location: string, status: number): Response {
  return new Response(null, { status, headers: { location } })
}

function isError(status: number): boolean {
  return Number.isInteger(status) && status >= 400 && status <= 599
}

function isMessage(body: unknown): boolean {
  return typeof (body as { message?: unknown } | null | undefined)?.message === 'string'
}

function initOf(init: unknown): ResponseInit {
  return typeof init === 'number' ? { status: init } : (init ?? {})
}
