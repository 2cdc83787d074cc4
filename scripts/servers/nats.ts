import type { ServerRecipe } from './recipe.ts'
import { simpleRecipe } from './simple.ts'

/**
 * NATS with JetStream and its default settings. An acknowledged message is not yet on disk (`sync_interval` is two
 * minutes).
 */
export const natsRecipe: ServerRecipe = simpleRecipe({
  name: 'nats',
  environmentVariable: 'NATS_URL',
  scheme: 'nats',
  binary: 'nats-server',
  debianPackage: 'nats-server',
  image: 'nats:2',
  imagePort: 4222,
  args: ({ host, port, data }) => ['-js', '-sd', data, '-a', host, '-p', String(port)],
  // A server sends its greeting at once, but answers a ping only when it is ready.
  hello: { ask: 'CONNECT {"verbose":false}\r\nPING\r\n', answer: /^PONG/m },
})
