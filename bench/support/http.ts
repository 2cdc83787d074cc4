import { type ChildProcess, execFile, fork } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once as onceEvent } from 'node:events'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { debianBinary } from '../../scripts/servers/debian.ts'
import { programBeside } from '../../scripts/program.ts'
import type { LoadOrder, LoadResult } from '../http-load.ts'

/** A server and its clients, each in a process of its own. */
export interface HttpBench {
  /** Who asks. wrk takes the least from the server it measures. */
  readonly client: 'wrk' | 'autocannon'
  /** The server's process, and its address. */
  readonly pid: number
  readonly base: string
  load(order: LoadOrder): Promise<LoadResult>
  /** The connections of its pools tell the database's statistics what they did. */
  flush(): Promise<void>
  close(): Promise<void>
}

/** `program`: a module of the benchmark that tells its port, and answers each message when its statistics are told. */
export async function startHttp(program: string, args: readonly string[], env = {}): Promise<HttpBench> {
  const server = start(program, args, env)
  const [port] = (await answerOf(server)) as [number]
  const base = `http://127.0.0.1:${port}`
  const clients = start('http-load', [base])
  const wrk = await debianBinary('wrk', 'wrk').catch(() => undefined)
  const client = wrk === undefined ? 'autocannon' : 'wrk'
  const byNode = async (order: LoadOrder): Promise<LoadResult> => {
    clients.send(order)
    const [result] = (await answerOf(clients)) as [LoadResult]
    return result
  }
  return {
    client,
    pid: server.pid ?? 0,
    base,
    async load(order) {
      const { seconds } = order
      const result = wrk !== undefined && seconds ? await byWrk(wrk, base, order, seconds) : await byNode(order)
      if (result.failed > 0) throw new Error(`${order.path}: ${result.failed} requests failed`)
      return result
    },
    async flush() {
      server.send('flush')
      await answerOf(server)
    },
    async close() {
      const ended = [onceEvent(server, 'exit'), onceEvent(clients, 'exit')]
      clients.disconnect()
      server.disconnect()
      await Promise.all(ended)
    },
  }
}

async function byWrk(
  wrk: string,
  base: string,
  { path, clients, keys }: LoadOrder,
  seconds: number,
): Promise<LoadResult> {
  const [prefix, count] = keys === 'new' ? [randomUUID(), 0] : [keys.prefix, keys.count]
  const script = join('bench', 'http-load.lua')
  const args = ['-t1', `-c${clients}`, `-d${Math.ceil(seconds)}s`, '-s', script, base, '--', path, prefix, `${count}`]
  const { stdout } = await promisify(execFile)(wrk, args)
  return JSON.parse(stdout.trim().split('\n').at(-1) ?? '') as LoadResult
}

function start(name: string, args: readonly string[], env = {}): ChildProcess {
  const program = programBeside(import.meta.url, join('..', name))
  return fork(program.file, args, {
    execArgv: [...program.execArgv],
    stdio: ['ignore', 2, 2, 'ipc'],
    env: { ...process.env, NODE_ENV: 'production', ...env },
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
