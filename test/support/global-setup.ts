import type { TestProject } from 'vitest/node'
import { isMissing, serverNames, startServers } from '../../scripts/servers/index.ts'
import type { Server, ServerName } from '../../scripts/servers/index.ts'

declare module 'vitest' {
  interface ProvidedContext {
    servers: Record<ServerName, Server>
  }
}

/** Starts every test server once per run and tells the tests where they are: `inject('servers').postgres`. */
export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const { stop, ...servers } = await startServers(serverNames)
  for (const name of serverNames) {
    const server = servers[name]
    if (isMissing(server)) console.warn(`${name} is missing, its tests are skipped: ${server.missing}`)
  }
  project.provide('servers', servers)
  return stop
}
