import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Playground } from './playground.ts'
import { serve } from './server.ts'

const PORT_DEFAULT = 4100

export interface OpenedPlayground {
  readonly url: string
  readonly playground: Playground
  /** Ends all processes and removes the folder. Safe to call twice. */
  close(): Promise<void>
}

/** Starts the services on a database in a temporary folder, and the page. `PORT` and `HOST` say where. */
export async function openPlayground(env: NodeJS.ProcessEnv = process.env): Promise<OpenedPlayground> {
  const folder = await mkdtemp(join(tmpdir(), 'effectively-once-playground-'))
  const port = env['PORT'] === undefined ? PORT_DEFAULT : Number(env['PORT'])
  const { playground, close } = await Playground.open(join(folder, 'playground.db'))
  const { url, server } = await serve(playground, { host: env['HOST'] ?? '127.0.0.1', port })
  let closing: Promise<void> | undefined
  const end = async (): Promise<void> => {
    server.closeAllConnections()
    server.close()
    await close()
    await rm(folder, { recursive: true, force: true })
  }
  return { url, playground, close: () => (closing ??= end()) }
}
