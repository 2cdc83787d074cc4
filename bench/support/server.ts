import { isMissing, startServers } from '../../scripts/servers/index.ts'
import { onServer } from './database.ts'

export const POSTGRES_VERSIONS = ['15', '18'] as const
export type PostgresVersion = (typeof POSTGRES_VERSIONS)[number]

export interface BenchServer {
  readonly url: string
  readonly version: string
  /** Started for this run alone, so that its settings may change. */
  readonly isOurs: boolean
  stop(): Promise<void>
}

/** `null`: the newest that can be had, or the one that POSTGRES_URL names. */
export async function startPostgres(wanted: PostgresVersion | null): Promise<BenchServer> {
  const name = wanted === '15' ? 'oldPostgres' : 'postgres'
  const servers = await startServers([name])
  try {
    const server = servers[name]
    if (isMissing(server)) throw new Error(`no PostgreSQL: ${server.missing}`)
    const version = await versionOf(server.url)
    if (wanted !== null && version.split('.')[0] !== wanted)
      throw new Error(`PostgreSQL ${wanted} was asked for, and ${version} is there`)
    return { url: server.url, version, isOurs: server.from !== 'environment', stop: () => servers.stop() }
  } catch (error) {
    await servers.stop()
    throw error
  }
}

async function versionOf(url: string): Promise<string> {
  const { rows } = await onServer(url, `select current_setting('server_version') as version`)
  return String(rows[0]?.version).split(' ')[0] as string
}
