import { hasMethods } from './revocable-handle.ts'

/** What we use of a client of the pool: it is an event emitter. */
interface PoolClient {
  on(event: 'error', listener: () => void): unknown
  removeListener(event: 'error', listener: () => void): unknown
  release(destroy: boolean): void
}

/**
 * The client that Drizzle takes out of a pool for one transaction. Drizzle sends BEGIN before it looks after the client:
 * if the connection breaks there, nobody listens to the client's error event, and nobody gives the client back.
 */
export class DrizzleCheckout {
  /** BEGIN worked: from now on Drizzle gives the client back. */
  begun = false
  #client: PoolClient | undefined

  /** The same database, with this object between Drizzle and the pool. */
  on<Db extends object>(db: Db, { session }: { readonly session: { readonly client: unknown } }): Db {
    const { client: pool } = session
    if (typeof pool !== 'object' || !hasMethods(pool, ['connect', 'query', 'on'])) return db
    const connect = async (): Promise<unknown> => {
      const client: unknown = await (pool as { connect(): Promise<unknown> }).connect()
      if (hasMethods(client, ['on', 'removeListener', 'release'])) {
        this.#client = client as PoolClient
        this.#client.on('error', ignore)
      }
      return client
    }
    const client = Object.create(pool, { connect: { value: connect } }) as unknown
    return Object.create(db, { session: { value: Object.create(session, { client: { value: client } }) } }) as Db
  }

  /** Drizzle is done with its transaction. */
  end(): void {
    const client = this.#client
    if (!client) return
    if (!this.begun) giveBack(client)
    client.removeListener('error', ignore)
  }
}

function giveBack(client: PoolClient): void {
  try {
    client.release(true)
  } catch {
    // A Drizzle that gives it back itself: the pool refuses to take it twice.
  }
}

function ignore(): void {}
