import { invalid } from '../options.ts'

type Texts = Readonly<Record<string, string | undefined>>
type Lists = Readonly<Record<string, readonly string[] | undefined>>

/**
 * The part of an HTTP event that is used: of API Gateway (REST and HTTP APIs), of a function URL, or of an Application
 * Load Balancer.
 */
export interface LambdaHttpEvent {
  readonly requestContext: {
    /** Set by HTTP APIs and function URLs. */
    readonly http?: { readonly method: string } | undefined
    /** Set by load balancers. */
    readonly elb?: object | undefined
    /** Set by API Gateway. */
    readonly stage?: string | undefined
  }
  readonly httpMethod?: string | undefined
  readonly path?: string | undefined
  readonly rawPath?: string | undefined
  readonly rawQueryString?: string | undefined
  readonly cookies?: readonly string[] | undefined
  readonly headers?: Texts | null | undefined
  readonly multiValueHeaders?: Lists | null | undefined
  readonly queryStringParameters?: Texts | null | undefined
  readonly multiValueQueryStringParameters?: Lists | null | undefined
  readonly body?: string | null | undefined
  readonly isBase64Encoded?: boolean | undefined
}

/** The answer to each of these events. */
export interface LambdaHttpAnswer {
  statusCode: number
  statusDescription?: string
  headers?: Record<string, string>
  multiValueHeaders?: Record<string, string[]>
  cookies?: string[]
  body: string
  isBase64Encoded: boolean
}

/** What a handler gets besides the request. */
export interface LambdaRequest<E extends LambdaHttpEvent = LambdaHttpEvent, C = unknown> {
  readonly event: E
  readonly context: C
}

/**
 * Serves HTTP events of Lambda with a handler of `effectively-once/fetch`, or any other function of a `Request`.
 *
 * @example
 * export const handler = httpHandler(idempotent(async (request, { tx }) => Response.json(…, { status: 201 })))
 */
export function httpHandler<E extends LambdaHttpEvent = LambdaHttpEvent, C = unknown>(
  handle: (request: Request, invocation: LambdaRequest<E, C>) => Promise<Response> | Response,
): (event: E, context: C) => Promise<LambdaHttpAnswer> {
  if (typeof handle !== 'function') throw invalid('httpHandler() needs a function')
  return async (event, context) => {
    const request = requestOf(event)
    if (request) events.set(request, event)
    return answerOf(request ? await handle(request, { event, context }) : badRequest(), event)
  }
}

const events = new WeakMap<Request, LambdaHttpEvent>()

/**
 * Returns the event from which `httpHandler` made the request. Use it in `scope`: if an authorizer of API Gateway
 * identified the caller, only the event names the caller. Undefined for any other request.
 *
 * @example
 * function scope(request: Request): string {
 *   const event = lambdaEvent(request) as APIGatewayProxyEventV2WithJWTAuthorizer
 *   return event.requestContext.authorizer.jwt.claims['sub'] as string
 * }
 */
export function lambdaEvent(request: Request): LambdaHttpEvent | undefined {
  return events.get(request)
}

/** Null: no Request can have this method, this host or these headers. */
function requestOf(event: LambdaHttpEvent): Request | null {
  const { requestContext, httpMethod, body, isBase64Encoded } = event ?? {}
  const method = requestContext?.http?.method ?? httpMethod
  if (method === undefined) throw invalid('the event is not an HTTP event of Lambda')
  const hasBody = typeof body === 'string' && method !== 'GET' && method !== 'HEAD'
  // As bytes: a text would get a content type that nobody sent.
  const bytes = hasBody ? Buffer.from(body, isBase64Encoded === true ? 'base64' : 'utf8') : null
  try {
    const headers = headersOf(event)
    return new Request(urlOf(event, headers), { method, headers, body: bytes })
  } catch {
    return null
  }
}

function badRequest(): Response {
  const detail = 'The method, the host or a header of the request is not valid'
  const problem = JSON.stringify({ type: 'about:blank', title: 'Bad Request', status: 400, detail })
  const headers = { 'content-type': 'application/problem+json' }
  return new Response(problem, { status: 400, statusText: 'Bad Request', headers })
}

function headersOf({ headers, multiValueHeaders, cookies = [] }: LambdaHttpEvent): Headers {
  const found = new Headers()
  // The lists have every value of a repeated header. The texts have only the last value.
  const given: Lists | Texts = multiValueHeaders ?? headers ?? {}
  for (const [name, values] of Object.entries(given)) {
    for (const value of listed(values)) found.append(name, onTheWire(value))
  }
  if (cookies.length > 0) found.set('cookie', onTheWire(cookies.join('; ')))
  return found
}

/** Lambda decodes UTF-8. A Request has one character for each byte, and so has every server of Node. */
function onTheWire(value: string): string {
  return /[^\0-\xff]/.test(value) ? Buffer.from(value).toString('latin1') : value
}

function listed(values: string | readonly string[] | undefined): readonly string[] {
  return typeof values === 'string' ? [values] : (values ?? [])
}

function urlOf(event: LambdaHttpEvent, headers: Headers): string {
  const { rawPath, path = '/' } = event
  const host = headers.get('host') || 'localhost'
  if (/[/?#\\]/.test(host)) throw new TypeError('the host would change the path')
  // Each proxy may add its own.
  const [first = ''] = (headers.get('x-forwarded-proto') ?? '').split(',', 1)
  const scheme = first.trim().toLowerCase() === 'http' ? 'http' : 'https'
  const query = queryOf(event)
  return `${scheme}://${host}${(rawPath ?? path).replace(/[?#]/g, encodeURIComponent)}${query === '' ? '' : `?${query}`}`
}

function queryOf(event: LambdaHttpEvent): string {
  if (event.rawQueryString !== undefined) return event.rawQueryString
  const { requestContext, queryStringParameters: texts, multiValueQueryStringParameters: lists } = event
  const given: Lists | Texts = lists ?? texts ?? {}
  const pairs = Object.entries(given).flatMap(([name, values]) =>
    listed(values).map((value): [string, string] => [name, value]),
  )
  // API Gateway decodes the query. A load balancer leaves it as it came.
  if (!requestContext.elb) return new URLSearchParams(pairs).toString()
  return pairs.map(([name, value]) => `${name}=${value}`).join('&')
}

async function answerOf(
  response: Response,
  { requestContext, multiValueHeaders }: LambdaHttpEvent,
): Promise<LambdaHttpAnswer> {
  const cookies = response.headers.getSetCookie()
  const headers = Object.fromEntries([...response.headers].filter(([name]) => name !== 'set-cookie'))
  const answer = { statusCode: response.status, ...(await bodyOf(response)) }
  if (requestContext.http) return { ...answer, headers, ...(cookies.length > 0 ? { cookies } : {}) }
  if (!requestContext.elb) {
    return { ...answer, headers, ...(cookies.length > 0 ? { multiValueHeaders: { 'set-cookie': cookies } } : {}) }
  }
  const statusDescription = `${response.status} ${response.statusText}`.trim()
  if (!multiValueHeaders) return { ...answer, statusDescription, headers: { ...headers, ...spelled(cookies) } }
  // With this setting, a load balancer takes lists only.
  const lists = Object.entries(headers).map(([name, value]) => [name, [value]])
  const all = { ...Object.fromEntries(lists), ...(cookies.length > 0 ? { 'set-cookie': cookies } : {}) }
  return { ...answer, statusDescription, multiValueHeaders: all as Record<string, string[]> }
}

async function bodyOf(response: Response): Promise<Pick<LambdaHttpAnswer, 'body' | 'isBase64Encoded'>> {
  const bytes = Buffer.from(await response.arrayBuffer())
  try {
    if (!response.headers.has('content-encoding')) return { body: strict.decode(bytes), isBase64Encoded: false }
  } catch {
    // The bytes are not text.
  }
  return { body: bytes.toString('base64'), isBase64Encoded: true }
}

const strict = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

/** One header for each cookie, where a header has one value: the names differ in their capital letters. */
function spelled(cookies: readonly string[]): Record<string, string> {
  return Object.fromEntries(cookies.map((cookie, number) => [capitals('set-cookie', number), cookie]))
}

function capitals(name: string, number: number): string {
  let bits = number
  return name.replace(/[a-z]/g, (letter) => {
    const isCapital = bits % 2 === 1
    bits = Math.floor(bits / 2)
    return isCapital ? letter.toUpperCase() : letter
  })
}
