/** Serves the page and its few commands over HTTP. Snapshots reach the page as server-sent events. */
import { readFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { extname } from 'node:path'
import { text } from 'node:stream/consumers'
import type { Playground } from './playground.ts'

const TYPES: Readonly<Record<string, string>> = {
  '.html': 'text/html; charset=utf-8',
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}
const PAGE = new URL('page/', import.meta.url)
const FILE_NAME = /^\/([a-z-]+\.(?:html|css|js|svg))$/
const BODY_MAX = 10_000
const CHARGES_MAX = 50
const POLICY =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'"

export interface ServeOptions {
  readonly host: string
  /** The port to listen on. If it is taken, any free port. */
  readonly port: number
}

export async function serve(
  playground: Playground,
  { host, port }: ServeOptions,
): Promise<{ url: string; server: Server }> {
  const server = createServer((req, res) => {
    if (!isOurs(req, host)) return fail(res, 403, 'this page is served to this machine only')
    answer(playground, req, res).catch((error: unknown) => {
      console.error(String(error))
      fail(res, 500, 'the playground failed; its terminal says why')
    })
  })
  await listen(server, host, port).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'EADDRINUSE' && error.code !== 'EACCES') throw error
    return listen(server, host, 0)
  })
  const shown = host === '127.0.0.1' ? 'localhost' : host
  return { url: `http://${shown}:${(server.address() as AddressInfo).port}/`, server }
}

async function answer(playground: Playground, req: IncomingMessage, res: ServerResponse): Promise<void> {
  const { pathname } = new URL(req.url ?? '/', 'http://localhost')
  if (req.method === 'POST') return act(playground, pathname, req, res)
  if (req.method !== 'GET' && req.method !== 'HEAD') return fail(res, 405, 'GET or POST')
  if (pathname === '/live') return stream(playground, res)
  if (pathname === '/snapshot') return send(res, playground.snapshot)
  const [, causation] = /^\/operations\/([\w-]{1,40})$/.exec(pathname) ?? []
  if (causation !== undefined) {
    const followed = await playground.follow(causation)
    return followed ? send(res, followed) : fail(res, 404, 'no such operation in the rounds that are kept')
  }
  const [, file = pathname === '/' ? 'index.html' : undefined] = FILE_NAME.exec(pathname) ?? []
  const content = file === undefined ? undefined : await readFile(new URL(file, PAGE)).catch(() => undefined)
  if (file === undefined || !content) return fail(res, 404, 'no such page')
  res.setHeader('content-type', TYPES[extname(file)] ?? 'application/octet-stream')
  res.setHeader('content-security-policy', POLICY).setHeader('cache-control', 'no-cache').end(content)
}

async function act(playground: Playground, path: string, req: IncomingMessage, res: ServerResponse): Promise<void> {
  // A form of another site cannot send JSON without a CORS preflight.
  if (!req.headers['content-type']?.startsWith('application/json')) return fail(res, 415, 'send application/json')
  if (Number(req.headers['content-length'] ?? Infinity) > BODY_MAX) return fail(res, 413, 'too much')
  const body = parsed(await text(req))
  if (body === undefined) return fail(res, 400, 'the body is no JSON object')
  switch (path) {
    case '/settings': {
      const problem = playground.set(body)
      const { settings, revision } = playground
      return problem === undefined ? send(res, { settings, revision }) : fail(res, 400, problem)
    }
    case '/charges': {
      const count = body['count'] ?? 1
      if (!Number.isInteger(count) || Number(count) < 1 || Number(count) > CHARGES_MAX) {
        return fail(res, 400, `count is a whole number from 1 to ${CHARGES_MAX}`)
      }
      return send(res, { begun: playground.charge(Number(count)) }, 202)
    }
    case '/kills': {
      const { service } = body
      if (service !== 'shop' && service !== 'receipts') return fail(res, 400, "service is 'shop' or 'receipts'")
      return send(res, { killed: playground.kill(service) })
    }
    case '/rounds':
      return send(res, playground.newRound() ?? {})
    default:
      return fail(res, 404, 'no such verb')
  }
}

function parsed(body: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(body)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

function stream(playground: Playground, res: ServerResponse): void {
  res.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-store' })
  const stop = playground.watch((snapshot) => {
    // A page that does not read, such as one in a sleeping tab, misses some snapshots.
    if (!res.writableNeedDrain) res.write(`data: ${JSON.stringify(snapshot)}\n\n`)
  })
  res.on('close', stop)
}

/** Refuses pages of other sites, including those whose host name points at this machine (DNS rebinding). */
function isOurs(req: IncomingMessage, host: string): boolean {
  const { host: asked = '', origin } = req.headers
  if (origin !== undefined && origin !== `http://${asked}`) return false
  const name = asked.replace(/:\d+$/, '')
  return host !== '127.0.0.1' || name === 'localhost' || name === '127.0.0.1'
}

function send(res: ServerResponse, body: unknown, status = 200): void {
  res.writeHead(status, { 'content-type': 'application/json', 'cache-control': 'no-store' })
  res.end(JSON.stringify(body ?? null))
}

function fail(res: ServerResponse, status: number, error: string): void {
  if (res.headersSent) res.destroy()
  else send(res, { error }, status)
}

function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}
