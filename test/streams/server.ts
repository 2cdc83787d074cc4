import { fork, type ChildProcess } from 'node:child_process'
import { programBeside } from '../../scripts/program.ts'

export interface Server {
  readonly child: ChildProcess
  readonly port: number
}

/** In bytes. */
export interface Memory {
  readonly rss: number
  /** What the program still holds: the heap and the buffers, after a garbage collection. Null: none was forced. */
  readonly held: number | null
}

/** Starts a server that records streams. It reports its memory. With `collects`, it collects its garbage first. */
export async function startServer(
  database: string,
  onMemory: (memory: Memory) => void,
  { collects = false }: { readonly collects?: boolean } = {},
): Promise<Server> {
  const { file, execArgv } = programBeside(import.meta.url, 'worker')
  const child = fork(file, [], {
    execArgv: [...execArgv, ...(collects ? ['--expose-gc'] : [])],
    env: { ...process.env, CHAOS_URL: database, NODE_ENV: 'production' },
  })
  const port = await new Promise<number>((resolve, reject) => {
    child.on('exit', () => reject(new Error('a server ended before it listened')))
    child.on('message', (said: { port?: number; memory?: Memory }) => {
      if (said.port !== undefined) resolve(said.port)
      if (said.memory !== undefined) onMemory(said.memory)
    })
  })
  return { child, port }
}
