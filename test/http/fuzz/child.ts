import type { Order, Reply } from './hosts.ts'
import { LocalHost } from './local-host.ts'

/** One process that serves: every app plain, or every app protected. */
const isPlain = process.env['FUZZ_APPS'] === 'plain'
const host = new LocalHost(isPlain ? 'plain' : 'protected')

/** Without us a process ends of this. What came of it is seen on the wire. */
if (isPlain) {
  process.on('uncaughtException', () => {})
  process.on('unhandledRejection', () => {})
}
for (const name of ['error', 'warn', 'log'] as const) console[name] = () => {}

async function answer(order: Order): Promise<Reply> {
  if ('open' in order) return { id: order.id, port: await host.port(order.open) }
  return { id: order.id, seen: await host.seen(order.nonce) }
}

process.on('message', (order: Order) => {
  answer(order).then(
    (reply) => process.send?.(reply),
    (error: unknown) => process.send?.({ id: order.id, failed: String((error as Error).stack ?? error) }),
  )
})
process.on('disconnect', () => process.exit(1))
process.send?.('ready')
