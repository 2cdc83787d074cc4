import { hasMethods } from './revocable-handle.ts'

/** The part of a pool's client that we use. It is an event emitter. */
interface PoolClient {
  on(event: 'error', listener: () => void): unknown
  removeListener(event: 'error', listener: () => void): unknown
  release(destroy: boolean): void
}

type Taken = (error: unknown, client?: unknown) => void

/**
 * The client that Drizzle takes from a pool for one transaction. Drizzle sends BEGIN before it looks after the client.
 * If the connection breaks then, nobody listens to the client's error event, and nobody releases the client.
 */
export class DrizzleCheckout {
  /** BEGIN worked, so from now on Drizzle releases the client. */
  begun = false
  #client: PoolClient | undefined

  /** The same database, with this object between Drizzle and the pool. */
  on<Db extends object>(db: Db, { session }: { readonly session: { readonly client: unknown } }): Db {
    const { client: pool } = session
    if (typeof pool !== 'object' || !hasMethods(pool, ['connect', 'query', 'on'])) return db
    // With a callback, because it runs before a promise resolves. The server's last error may arrive in the same packet
    // as the answer that freed the client.
    const connect = (): Promise<unknown> =>
      new Promise((resolve, reject) => {
        const taken: Taken = (error, client) => (error ? reject(error) : resolve(this.#held(client)))
        const promised = (pool as { connect(taken: Taken): unknown }).connect(taken)
        if (promised instanceof Promise) promised.then((client: unknown) => taken(undefined, client), reject)
      })
    const client = Object.create(pool, { connect: { value: connect } }) as unknown
    return Object.create(db, { session: { value: Object.create(session, { client: { value: client } }) } }) as Db
  }

  #held(client: unknown): unknown {
    if (hasMethods(client, ['on', 'removeListener', 'release'])) {
      this.#client = client as PoolClient
      this.#client.on('error', ignore)
    }
    return client
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
    // This version of Drizzle has released the client itself, and the pool refuses a second release.
  }
}

function ignore(): void {}
