import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Libsql from 'libsql'
import { freePort } from '../../../scripts/servers/process.ts'
import { kill, started } from '../chaos/chaos.ts'
import { stripeLike } from '../support/stripe-like.ts'

/** A server that takes payments. */
export interface Shop {
  readonly port: number
  /** Kills the server, and starts it again. */
  restart(): Promise<void>
  /** The order of each charge. */
  charges(): number[]
  stop(): Promise<void>
}

/** A server with this package, in a process of its own. Its charges are counted by plain SQL. */
export async function ourShop(folder: string): Promise<Shop> {
  const file = join(folder, 'shop.db')
  const port = await freePort()
  const start = () => started('shop', [file, String(port)], 'listening')
  let shop = await start()
  return {
    port,
    async restart() {
      await kill(shop.child)
      shop = await start()
    },
    charges() {
      const database = new Libsql(file)
      const rows = database.prepare('select order_number from charges').all() as { order_number: number }[]
      database.close()
      return rows.map(({ order_number }) => order_number)
    },
    stop: () => kill(shop.child),
  }
}

/** A server with the idempotency of Stripe's API. It keeps its books in memory, so it cannot be killed. */
export async function stripeShop(): Promise<Shop> {
  const { server, charges } = stripeLike()
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    port: (server.address() as AddressInfo).port,
    restart: () => Promise.reject(new Error('this server forgets its charges')),
    charges: () => charges.map((body) => (JSON.parse(body) as { order: number }).order),
    async stop() {
      server.closeAllConnections()
      server.close()
    },
  }
}
