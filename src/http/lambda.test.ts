import type { ALBEvent, APIGatewayProxyEvent, APIGatewayProxyEventV2 } from 'aws-lambda'
import { expect, it } from 'vitest'
import { effectivelyOnce } from '../once/once.ts'
import { memoryStore } from '../store/memory/memory-store.ts'
import { idempotency } from './fetch.ts'
import { httpHandler, lambdaEvent, type LambdaHttpAnswer, type LambdaHttpEvent } from './lambda.ts'

const v2 = (more: Partial<APIGatewayProxyEventV2> = {}): APIGatewayProxyEventV2 => ({
  version: '2.0',
  routeKey: '$default',
  rawPath: '/charges/ä b',
  rawQueryString: 'a=1&a=2&b=x%20y',
  cookies: ['one=1', 'two=2'],
  headers: {
    host: 'api.example',
    'x-forwarded-proto': 'https',
    'idempotency-key': '"k1"',
    'content-type': 'application/json',
  },
  requestContext: {
    accountId: '1',
    apiId: 'a',
    domainName: 'api.example',
    domainPrefix: 'api',
    http: { method: 'POST', path: '/charges', protocol: 'HTTP/1.1', sourceIp: '127.0.0.1', userAgent: 'test' },
    requestId: 'r',
    routeKey: '$default',
    stage: '$default',
    time: '',
    timeEpoch: 0,
  },
  body: '{"amount":1}',
  isBase64Encoded: false,
  ...more,
})

const v1 = (more: Partial<APIGatewayProxyEvent> = {}): APIGatewayProxyEvent => ({
  resource: '/{proxy+}',
  path: '/charges',
  httpMethod: 'POST',
  headers: { Host: 'api.example', 'Idempotency-Key': 'last' },
  multiValueHeaders: { Host: ['api.example'], 'Idempotency-Key': ['first', 'last'] },
  queryStringParameters: { q: 'b' },
  multiValueQueryStringParameters: { q: ['a & b', 'b'] },
  pathParameters: null,
  stageVariables: null,
  requestContext: {} as APIGatewayProxyEvent['requestContext'],
  body: null,
  isBase64Encoded: false,
  ...more,
})

const alb = (more: Partial<ALBEvent> = {}): ALBEvent => ({
  requestContext: { elb: { targetGroupArn: 'arn' } },
  httpMethod: 'GET',
  path: '/charges',
  headers: { host: 'lb.example', 'x-forwarded-proto': 'http' },
  queryStringParameters: { q: 'a%20b' },
  body: '',
  isBase64Encoded: false,
  ...more,
})

interface Seen {
  readonly method: string
  readonly url: string
  readonly headers: Record<string, string>
  readonly body: Uint8Array
}

async function seen(event: LambdaHttpEvent): Promise<Seen> {
  let found: Seen | undefined
  const handler = httpHandler(async (request) => {
    const body = new Uint8Array(await request.arrayBuffer())
    found = { method: request.method, url: request.url, headers: Object.fromEntries(request.headers), body }
    return new Response()
  })
  await handler(event, {})
  return found!
}

function answerTo(event: LambdaHttpEvent, response: Response): Promise<LambdaHttpAnswer> {
  return httpHandler(() => response)(event, {})
}

const withCookies = (): Response => {
  const headers = new Headers({ 'content-type': 'application/json' })
  for (const cookie of ['a=1; Path=/', 'b=2', 'c=3']) headers.append('set-cookie', cookie)
  return new Response('{"ok":true}', { status: 201, statusText: 'Created', headers })
}

it('an event of an HTTP API or a function URL becomes a request', async () => {
  const { method, url, headers, body } = await seen(v2())
  expect(method).toBe('POST')
  expect(url).toBe('https://api.example/charges/%C3%A4%20b?a=1&a=2&b=x%20y')
  expect(headers).toMatchObject({
    cookie: 'one=1; two=2',
    'idempotency-key': '"k1"',
    'content-type': 'application/json',
  })
  expect(Buffer.from(body).toString()).toBe('{"amount":1}')
  const bytes = Buffer.from([0, 255, 10])
  const ofUrl = v2({ body: bytes.toString('base64'), isBase64Encoded: true })
  expect(Buffer.from((await seen(ofUrl)).body)).toEqual(bytes)
})

it('an event of a REST API becomes a request, with every value of a header and of the query', async () => {
  const { url, headers, body } = await seen(v1())
  expect(url).toBe('https://api.example/charges?q=a+%26+b&q=b')
  expect(headers['idempotency-key']).toBe('first, last')
  expect(headers['content-type']).toBeUndefined()
  expect(body).toHaveLength(0)
  expect((await seen(v1({ path: '/a?b#c' }))).url).toBe('https://api.example/a%3Fb%23c?q=a+%26+b&q=b')
})

it('an event of a load balancer becomes a request, whose query stays encoded', async () => {
  expect((await seen(alb())).url).toBe('http://lb.example/charges?q=a%20b')
  const { headers: _, queryStringParameters: __, ...bare } = alb()
  const multi: ALBEvent = {
    ...bare,
    multiValueHeaders: { host: ['lb.example'], accept: ['a', 'b'] },
    multiValueQueryStringParameters: { q: ['1%2B1', '2'] },
  }
  const { url, headers } = await seen(multi)
  expect([url, headers['accept']]).toEqual(['https://lb.example/charges?q=1%2B1&q=2', 'a, b'])
})

it('the answer has the form that its event needs', async () => {
  const body = { body: '{"ok":true}', isBase64Encoded: false, statusCode: 201 }
  const headers = { 'content-type': 'application/json' }
  const cookies = ['a=1; Path=/', 'b=2', 'c=3']
  expect(await answerTo(v2(), withCookies())).toEqual({ ...body, headers, cookies })
  expect(await answerTo(v1(), withCookies())).toEqual({
    ...body,
    headers,
    multiValueHeaders: { 'set-cookie': cookies },
  })
  const one = await answerTo(alb(), withCookies())
  expect(one).toMatchObject({ ...body, statusDescription: '201 Created' })
  expect(one.headers).toEqual({
    ...headers,
    'set-cookie': cookies[0],
    'Set-cookie': cookies[1],
    'sEt-cookie': cookies[2],
  })
  const many = await answerTo(alb({ multiValueHeaders: {} }), withCookies())
  expect(many).toEqual({
    ...body,
    statusDescription: '201 Created',
    multiValueHeaders: { 'content-type': ['application/json'], 'set-cookie': cookies },
  })
})

it('bytes that are no text, and coded answers, leave as base64', async () => {
  const bytes = Uint8Array.from([0xff, 0xfe, 0])
  expect(await answerTo(v2(), new Response(bytes))).toMatchObject({ body: '//4A', isBase64Encoded: true })
  const coded = new Response('text', { headers: { 'content-encoding': 'gzip' } })
  expect(await answerTo(v2(), coded)).toMatchObject({ body: 'dGV4dA==', isBase64Encoded: true })
  const marked = new Response('\ufefftext')
  expect(await answerTo(v2(), marked)).toMatchObject({ body: '\ufefftext', isBase64Encoded: false })
})

it('the scheme is the first one that a proxy names', async () => {
  const urlOf = async (proto: string): Promise<string> =>
    (await seen(alb({ headers: { host: 'lb.example', 'x-forwarded-proto': proto } }))).url
  expect(await urlOf('http,https')).toBe('http://lb.example/charges?q=a%20b')
  expect(await urlOf('HTTPS , http')).toBe('https://lb.example/charges?q=a%20b')
  expect(await urlOf('javascript')).toBe('https://lb.example/charges?q=a%20b')
  const headers = { host: ['lb.example'], 'x-forwarded-proto': ['http', 'https'] }
  expect((await seen(alb({ multiValueHeaders: headers }))).url).toBe('http://lb.example/charges?q=a%20b')
  expect((await seen(alb({ headers: { host: '' } }))).url).toBe('https://localhost/charges?q=a%20b')
})

it('a header outside of Latin-1 arrives as its bytes, as on a server', async () => {
  const { headers } = await seen(alb({ headers: { host: 'lb.example', 'x-name': 'Zoë 🦔', 'x-town': 'Zürich' } }))
  expect(Buffer.from(headers['x-name'] ?? '', 'latin1').toString()).toBe('Zoë 🦔')
  expect(headers['x-town']).toBe('Zürich')
})

it.each([
  ['the method TRACE', alb({ httpMethod: 'TRACE' })],
  ['a line break in a header', alb({ headers: { host: 'lb.example', 'x-name': 'a\r\nb: c' } })],
  ['an invalid name of a header', alb({ headers: { host: 'lb.example', 'a b': 'c' } })],
  ['an invalid host', alb({ headers: { host: 'a b' } })],
  ['a host with a path', alb({ headers: { host: 'lb.example/admin' } })],
])('answers 400 to %s, and does not call the handler', async (_what, event) => {
  let calls = 0
  const answer = await httpHandler(() => new Response(String(calls++)))(event, {})
  expect(answer).toMatchObject({ statusCode: 400, headers: { 'content-type': 'application/problem+json' } })
  expect(answer.statusDescription).toBe('400 Bad Request')
  expect(JSON.parse(answer.body)).toMatchObject({ title: 'Bad Request', status: 400 })
  expect(calls).toBe(0)
})

it('refuses what is no HTTP event', async () => {
  await expect(httpHandler(() => new Response())({ Records: [] } as never, {})).rejects.toThrow(/ONCE_OPTION_INVALID/)
  expect(() => httpHandler(undefined as never)).toThrow(/ONCE_OPTION_INVALID/)
})

it('gives the scope the event, with the caller that an authorizer found', async () => {
  const once = effectivelyOnce({ namespace: 'lambda', store: memoryStore(), sweep: false })
  type Authorized = LambdaHttpEvent & { readonly requestContext: { readonly authorizer: { readonly sub: string } } }
  const scope = (request: Request): string => (lambdaEvent(request) as Authorized).requestContext.authorizer.sub
  let runs = 0
  const pay = httpHandler(idempotency(once, { scope })(async () => new Response(`${++runs}`, { status: 201 })))
  const by = (sub: string): Promise<LambdaHttpAnswer> => {
    const { requestContext } = v2()
    return pay(v2({ requestContext: { ...requestContext, authorizer: { sub } } as never }), {})
  }
  expect([(await by('a')).body, (await by('b')).body, (await by('a')).body]).toEqual(['1', '2', '1'])
  expect(lambdaEvent(new Request('https://a.example'))).toBeUndefined()
  await once.close()
})
