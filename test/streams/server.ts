import { fork, type ChildProcess } from 'node:child_process'
import { programBeside } from '../../scripts/program.ts'

export interface Server {
  readonly child: ChildProcess
  readonly port: number
}

/** Starts a server that records streams. It reports its memory, in bytes. */
export async function startServer(database: string, onRss: (rss: number) => void): Promise<Server> {
  const { file, execArgv } = programBeside(import.meta.url, 'worker')
  const child = fork(file, [], {
    execArgv: [...execArgv],
    env: { ...process.env, CHAOS_URL: database, NODE_ENV: 'production' },
  })
  const port = await new Promise<number>((resolve, reject) => {
    child.on('exit', () => reject(new Error('a server ended before it listened')))
    child.on('message', (said: { port?: number; rss?: number }) => {
      if (said.port !== undefined) resolve(said.port)
      if (said.rss !== undefined) onRss(said.rss)
    })
  })
  return { child, port }
}
