import type { TestProject } from 'vitest/node'
import { isMissing, serverNames, startServers } from '../../scripts/servers/index.ts'
import type { Server, ServerName } from '../../scripts/servers/index.ts'
import { lateServerNames, offerLateServers, type LateServerName } from './late-servers.ts'

type EarlyServerName = Exclude<ServerName, LateServerName>

declare module 'vitest' {
  interface ProvidedContext {
    servers: Record<EarlyServerName, Server>
    lateServers: string
  }
}

/**
 * Starts every quick test server once per run and tells the tests where they are: `inject('servers').postgres`. The slow
 * ones are started when a test file asks: `await lateServer('kafka')`.
 */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const early = serverNames.filter((name): name is EarlyServerName => !lateServerNames.some((late) => late === name))
  const { stop, ...servers } = await startServers(early)
  for (const name of early) {
    const server = servers[name]
    if (isMissing(server)) console.warn(`${name} is missing, its tests are skipped: ${server.missing}`)
  }
  const late = await offerLateServers()
  project.provide('servers', servers)
  project.provide('lateServers', late.directory)
  return async () => {
    await Promise.all([stop(), late.stop()])
  }
}
