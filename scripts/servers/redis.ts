import { debianBinary, unprivileged } from './debian.ts'
import type { RunningServer, ServerRecipe } from './recipe.ts'
import { simpleRecipe, start } from './simple.ts'

/** Every acknowledged write is on disk, because a test must find it after a crash. */
const SETTINGS = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '', '--maxmemory-policy', 'noeviction']

// The server answers -LOADING while it loads its data.
export const redisWire = { scheme: 'redis', hello: { ask: 'PING\r\n', answer: /^\+PONG/m } } as const

export function redisArgs({ host, port, data }: { host: string; port: number; data: string }): readonly string[] {
  const place = ['--bind', host, '--port', String(port), '--dir', data, '--protected-mode', 'no']
  return [...place, '--daemonize', 'no', ...SETTINGS]
}

export const redisRecipe: ServerRecipe = simpleRecipe({
  name: 'redis',
  environmentVariable: 'REDIS_URL',
  binary: 'redis-server',
  debianPackage: 'redis-server',
  image: 'redis:8',
  imagePort: 6379,
  args: redisArgs,
  ...redisWire,
})

/** One Redis among several, with further settings. */
export async function startRedisNode(more: readonly string[]): Promise<RunningServer> {
  const command = await debianBinary('redis-server', 'redis-server')
  return start(redisWire, await unprivileged(), (port, data) => ({
    command,
    args: [...redisArgs({ host: '127.0.0.1', port, data }), ...more],
  }))
}
