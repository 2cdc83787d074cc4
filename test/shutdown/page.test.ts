import { spawn, type ChildProcess } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { request } from 'node:http'
import { connect, createServer, type AddressInfo } from 'node:net'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const page = readFileSync(join(root, 'docs/shutdown.md'), 'utf8')
const ENDS_MS = 8_000
const BODY = '{"amount":500}'

/** The programs of the page, by heading. */
const programs = new Map(
  page
    .split(/^## /m)
    .slice(1)
    .map((section) => [section.split('\n')[0] ?? '', /^```ts\n([\s\S]*?)^```$/m.exec(section)?.[1] ?? '']),
)

let folder: string
beforeAll(async () => {
  await mkdir(join(root, '.tmp'), { recursive: true })
  folder = await mkdtemp(join(root, '.tmp', 'shutdown-'))
  const up = relative(folder, root)
  const paths = { 'effectively-once': [`${up}/src/index.ts`], 'effectively-once/*': [`${up}/src/entry/*.ts`] }
  const compilerOptions = { paths, experimentalDecorators: true }
  await writeFile(
    join(folder, 'tsconfig.json'),
    JSON.stringify({ extends: `${up}/tsconfig.json`, compilerOptions, include: ['*.ts'] }),
  )
  await writeFile(join(folder, 'shop.ts'), /^```ts\n(\/\/ shop\.ts[\s\S]*?)^```$/m.exec(page)?.[1] ?? '')
})
afterAll(() => rm(folder, { recursive: true, force: true }))

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await onceEvent(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  return port
}

async function start(name: string, port: number): Promise<ChildProcess> {
  const file = `${name.replaceAll(/\W/g, '-')}.ts`
  await writeFile(join(folder, file), programs.get(name) ?? '')
  return spawn(process.execPath, ['--import', 'tsx', file], {
    cwd: folder,
    env: {
      ...process.env,
      NODE_NO_WARNINGS: '1',
      TSX_TSCONFIG_PATH: 'tsconfig.json',
      FILE: `${port}.db`,
      PORT: `${port}`,
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
}

async function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, 'localhost')
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}

/** A request whose body comes in two parts: it is under way until `finish`. */
function slowly(port: number): { finish(): void; answer: Promise<{ status: number; connection: string | undefined }> } {
  const headers = { 'content-type': 'application/json', 'content-length': BODY.length, 'idempotency-key': '"k1"' }
  const req = request({ port, host: 'localhost', path: '/charges', method: 'POST', headers })
  const answer = new Promise<{ status: number; connection: string | undefined }>((resolve, reject) => {
    req.on('error', reject).on('response', (res) => {
      const { connection } = res.headers
      res.resume().on('end', () => resolve({ status: res.statusCode ?? 0, connection }))
    })
  })
  answer.catch(() => {})
  req.write(BODY.slice(0, 5))
  return { finish: () => req.end(BODY.slice(5)), answer }
}

const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms))

describe('the programs of docs/shutdown.md, told SIGTERM', () => {
  it('are those of every framework', () => {
    expect([...programs.keys()]).toEqual([
      'Express',
      'Koa',
      'node:http',
      'Hono on Node',
      'Fastify',
      'Nest',
      'A worker without HTTP',
    ])
  })

  it.each([...programs.keys()].filter((name) => name !== 'A worker without HTTP'))(
    '%s: answers the request that is under way, takes no other, and ends by itself',
    async (name) => {
      const port = await freePort()
      const child = await start(name, port)
      const ended = onceEvent(child, 'close')
      try {
        for (let tries = 0; !(await accepts(port)) && tries < 300; tries++) await pause(50)
        const { finish, answer } = slowly(port)
        await pause(200)
        child.kill('SIGTERM')
        for (let tries = 0; (await accepts(port)) && tries < 100; tries++) await pause(20)
        expect(await accepts(port)).toBe(false)
        const at = performance.now()
        finish()
        expect(await answer).toMatchObject({ status: 201 })
        const code = await Promise.race([ended, pause(ENDS_MS)])
        expect(code?.[0] ?? child.signalCode).not.toBe('SIGKILL')
        expect(performance.now() - at).toBeLessThan(ENDS_MS)
      } finally {
        child.kill('SIGKILL')
      }
    },
  )

  it('a worker ends by itself', async () => {
    const child = await start('A worker without HTTP', 1)
    try {
      await onceEvent(child.stdout as NodeJS.ReadableStream, 'data')
      const ended = onceEvent(child, 'close')
      const at = performance.now()
      child.kill('SIGTERM')
      const [code] = (await ended) as [number]
      expect(code).toBe(0)
      expect(performance.now() - at).toBeLessThan(ENDS_MS)
    } finally {
      child.kill('SIGKILL')
    }
  })
})
