import { kafkaRecipe } from './kafka.ts'
import { natsRecipe } from './nats.ts'
import { logicalPostgresRecipe, oldPostgresRecipe, postgresRecipe } from './postgres.ts'
import { rabbitmqRecipe } from './rabbitmq.ts'
import { redisClusterRecipe } from './redis-cluster.ts'
import { redisSentinelRecipe } from './redis-sentinel.ts'
import { redisRecipe } from './redis.ts'
import { snsRecipe } from './sns.ts'
import { sqsRecipe } from './sqs.ts'
import { valkeyRecipe } from './valkey.ts'
import { isMissing } from './recipe.ts'
import type { RunningServer, Server, ServerRecipe } from './recipe.ts'
import { messageOf } from './process.ts'

export { isMissing } from './recipe.ts'
export type { RunningServer, Server, ServerRecipe } from './recipe.ts'

const recipes = {
  postgres: postgresRecipe,
  nats: natsRecipe,
  redis: redisRecipe,
  redisCluster: redisClusterRecipe,
  redisSentinel: redisSentinelRecipe,
  valkey: valkeyRecipe,
  rabbitmq: rabbitmqRecipe,
  kafka: kafkaRecipe,
  sqs: sqsRecipe,
  sns: snsRecipe,
  oldPostgres: oldPostgresRecipe,
  logicalPostgres: logicalPostgresRecipe,
} as const satisfies Record<string, ServerRecipe>

export type ServerName = keyof typeof recipes

export const serverNames: readonly ServerName[] = Object.keys(recipes) as ServerName[]

export type StartedServers<Name extends ServerName = ServerName> = { readonly [name in Name]: Server } & {
  /** Ends the servers that this call started, and no others. */
  stop(): Promise<void>
}

/**
 * Starts each named server once, on private ports of 127.0.0.1. An unavailable server is `{ missing: reason }`. If
 * `REQUIRE_SERVICES` requires it, this throws instead.
 *
 * @example
 * const servers = await startServers(['postgres'])
 * if ('url' in servers.postgres) console.log(servers.postgres.url)
 * await servers.stop()
 */
export function startServers<Name extends ServerName>(names: readonly Name[]): Promise<StartedServers<Name>> {
  return startRecipes<Name>(recipes, names, process.env)
}

/**
 * Starts a server for one caller alone, which may halt and resume it. A server from the environment is never used,
 * because someone else runs it.
 */
export async function startAlone(name: ServerName): Promise<RunningServer | { readonly missing: string }> {
  const running: RunningServer[] = []
  const server = await startOne(recipes[name], {}, running)
  return isMissing(server) ? server : (running[0] as RunningServer)
}

/** `startServers` with explicit recipes and environment, so that the rules can be tested without a server. */
export async function startRecipes<Name extends string>(
  book: { readonly [name in Name]: ServerRecipe },
  names: readonly Name[],
  environment: Readonly<Record<string, string | undefined>>,
): Promise<{ readonly [name in Name]: Server } & { stop(): Promise<void> }> {
  const running: RunningServer[] = []
  const stop = async (): Promise<void> => {
    await Promise.all(running.splice(0).map((server) => server.stop()))
  }
  const unique = [...new Set(names)]
  const servers = await Promise.all(unique.map((name) => startOne(book[name], environment, running)))
  const started = Object.fromEntries(unique.map((name, index) => [name, servers[index]])) as Record<Name, Server>
  const absent = unique.flatMap((name) => {
    const server = started[name]
    return isMissing(server) && isRequired(name, environment) ? [`${name}: ${server.missing}`] : []
  })
  if (absent.length > 0) {
    await stop()
    throw new Error(`REQUIRE_SERVICES asks for servers that cannot be had. ${absent.join('; ')}`)
  }
  return { ...started, stop }
}

async function startOne(
  recipe: ServerRecipe,
  environment: Readonly<Record<string, string | undefined>>,
  running: RunningServer[],
): Promise<Server> {
  const url = environment[recipe.environmentVariable]
  if (url) return { url, from: 'environment' }
  const reasons: string[] = [`${recipe.environmentVariable} is not set`]
  for (const way of recipe.ways) {
    try {
      const server = await way.start()
      running.push(server)
      return { url: server.url, from: way.name }
    } catch (error) {
      reasons.push(`${way.name}: ${messageOf(error)}`)
    }
  }
  return { missing: reasons.join('; ') }
}

/** `REQUIRE_SERVICES` is `all` or a comma-separated list of server names. */
export function isRequired(name: string, environment: Readonly<Record<string, string | undefined>>): boolean {
  const required = (environment['REQUIRE_SERVICES'] ?? '').split(',').map((part) => part.trim())
  return required.includes('all') || required.includes(name)
}
