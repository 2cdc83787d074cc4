import { type ChildProcess, execFile, fork, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once as onceEvent } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { LoadOrder, LoadResult } from '../http-load.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BUILD = join(ROOT, '.bench-build')

/** A server and its clients, each in a process of its own. */
export interface HttpBench {
  /** Who asks. wrk takes the least from the server it measures. */
  readonly client: 'wrk' | 'autocannon'
  load(order: LoadOrder): Promise<LoadResult>
  close(): Promise<void>
}

export async function startHttp(databaseUrl: string): Promise<HttpBench> {
  compile()
  const server = start('http-server.js', [databaseUrl])
  const [port] = (await answerOf(server)) as [number]
  const base = `http://127.0.0.1:${port}`
  const clients = start('http-load.js', [base])
  const client = spawnSync('wrk', ['--version']).error ? 'autocannon' : 'wrk'
  const byNode = async (order: LoadOrder): Promise<LoadResult> => {
    clients.send(order)
    const [result] = (await answerOf(clients)) as [LoadResult]
    return result
  }
  return {
    client,
    async load(order) {
      const { seconds } = order
      const result = client === 'wrk' && seconds ? await byWrk(base, order, seconds) : await byNode(order)
      if (result.failed > 0) throw new Error(`${order.path}: ${result.failed} requests failed`)
      return result
    },
    async close() {
      const ended = [onceEvent(server, 'exit'), onceEvent(clients, 'exit')]
      clients.disconnect()
      server.disconnect()
      await Promise.all(ended)
    },
  }
}

async function byWrk(base: string, { path, clients, keys }: LoadOrder, seconds: number): Promise<LoadResult> {
  const [prefix, count] = keys === 'new' ? [randomUUID(), 0] : [keys.prefix, keys.count]
  const script = join(ROOT, 'bench', 'http-load.lua')
  const args = ['-t1', `-c${clients}`, `-d${Math.ceil(seconds)}s`, '-s', script, base, '--', path, prefix, `${count}`]
  const { stdout } = await promisify(execFile)('wrk', args)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as LoadResult
}

/** As users run it: what a loader adds to every function is nobody's cost in production. */
function compile(): void {
  const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
  const args = [tsc, '-p', 'tsconfig.json', '--noEmit', 'false', '--outDir', BUILD, '--rootDir', '.']
  const { status } = spawnSync(process.execPath, args, { cwd: ROOT, stdio: ['ignore', 2, 2] })
  if (status !== 0) throw new Error('the benchmark does not compile')
}

function start(file: string, args: readonly string[]): ChildProcess {
  return fork(join(BUILD, 'bench', file), args, {
    cwd: ROOT,
    execArgv: [],
    stdio: ['ignore', 2, 2, 'ipc'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
}

function answerOf(child: ChildProcess): Promise<unknown[]> {
  const gone = new AbortController()
  const ended = onceEvent(child, 'exit', { signal: gone.signal }).then(() => {
    throw new Error('a process of the benchmark ended early')
  })
  return Promise.race([onceEvent(child, 'message'), ended]).finally(() => {
    ended.catch(() => {})
    gone.abort()
  })
}
