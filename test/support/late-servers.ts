import { mkdtemp, readFile, readdir, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import { isMissing, startServers, type Server, type ServerName } from '../../scripts/servers/index.ts'

const LOOK_MS = 100
const PATIENCE_MS = 600_000

/** Servers that take seconds to start, or that few tests need: only a run that asks for one has it. */
export const lateServerNames = [
  'rabbitmq',
  'kafka',
  'sqs',
  'sns',
  'oldPostgres',
  'logicalPostgres',
  'redisCluster',
  'redisSentinel',
  'valkey',
] as const satisfies readonly ServerName[]

export type LateServerName = (typeof lateServerNames)[number]

type Answer = Server | { readonly failed: string }

export interface LateServers {
  /** Where test files ask: `inject('lateServers')`. */
  readonly directory: string
  stop(): Promise<void>
}

/** In the process of the whole run: starts each server when the first test file asks for it. */
export async function offerLateServers(): Promise<LateServers> {
  const directory = await mkdtemp(join(tmpdir(), 'effectively-once-late-'))
  const started = new Map<LateServerName, Promise<() => Promise<void>>>()
  const timer = setInterval(() => {
    void readdir(directory).then((files) => {
      for (const name of lateServerNames) {
        if (files.includes(`${name}.wanted`) && !started.has(name)) started.set(name, start(name, directory))
      }
    })
  }, LOOK_MS)
  timer.unref()
  return {
    directory,
    async stop() {
      clearInterval(timer)
      await Promise.all([...started.values()].map(async (server) => (await server)()))
      await rm(directory, { recursive: true, force: true })
    },
  }
}

async function start(name: LateServerName, directory: string): Promise<() => Promise<void>> {
  const answer = async (text: Answer): Promise<void> => {
    const file = join(directory, `${name}.json`)
    await writeFile(`${file}.new`, JSON.stringify(text))
    await rename(`${file}.new`, file)
  }
  try {
    const servers = await startServers([name])
    const server = servers[name]
    if (isMissing(server)) console.warn(`${name} is missing, its tests are skipped: ${server.missing}`)
    await answer(server)
    return servers.stop
  } catch (error) {
    await answer({ failed: String(error) })
    return async () => {}
  }
}

/**
 * In a test file, at its top: the server, once it answers. Throws when `REQUIRE_SERVICES` asks for a server that cannot
 * be had.
 */
export async function lateServer(name: LateServerName): Promise<Server> {
  const directory = inject('lateServers')
  await writeFile(join(directory, `${name}.wanted`), '')
  const deadline = Date.now() + PATIENCE_MS
  while (Date.now() < deadline) {
    const text = await readFile(join(directory, `${name}.json`), 'utf8').catch(() => undefined)
    if (text !== undefined) {
      const answer = JSON.parse(text) as Answer
      if ('failed' in answer) throw new Error(answer.failed)
      return answer
    }
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
  throw new Error(`${name} did not start in ${PATIENCE_MS} ms`)
}
