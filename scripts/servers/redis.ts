import type { ServerRecipe } from './recipe.ts'
import { simpleRecipe } from './simple.ts'

/** Every acknowledged write is on disk, because a test must find it after a crash. */
const SETTINGS = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '', '--maxmemory-policy', 'noeviction']

export const redisRecipe: ServerRecipe = simpleRecipe({
  name: 'redis',
  environmentVariable: 'REDIS_URL',
  scheme: 'redis',
  binary: 'redis-server',
  debianPackage: 'redis-server',
  image: 'redis:8',
  imagePort: 6379,
  args: ({ host, port, data }) => {
    const place = ['--bind', host, '--port', String(port), '--dir', data, '--protected-mode', 'no']
    return [...place, '--daemonize', 'no', ...SETTINGS]
  },
  // The server answers -LOADING while it loads its data.
  hello: { ask: 'PING\r\n', answer: /^\+PONG/m },
})
