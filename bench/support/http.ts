import { type ChildProcess, fork, spawnSync } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LoadOrder, LoadResult } from '../http-load.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const BUILD = join(ROOT, '.bench-build')

/** A server and its clients, each in a process of its own. */
export interface HttpBench {
  load(order: LoadOrder): Promise<LoadResult>
  close(): Promise<void>
}

export async function startHttp(databaseUrl: string): Promise<HttpBench> {
  compile()
  const server = start('http-server.js', [databaseUrl])
  const [port] = (await answerOf(server)) as [number]
  const clients = start('http-load.js', [`http://127.0.0.1:${port}`])
  return {
    async load(order) {
      clients.send(order)
      const [result] = (await answerOf(clients)) as [LoadResult]
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
