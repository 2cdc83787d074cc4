import type { ServerRecipe } from './recipe.ts'
import { simpleRecipe } from './simple.ts'

/** Every acknowledged write is on disk: what a test reads after a crash must be what was promised. */
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
  // While it loads its data it answers -LOADING.
  hello: { ask: 'PING\r\n', answer: /^\+PONG/m },
})
