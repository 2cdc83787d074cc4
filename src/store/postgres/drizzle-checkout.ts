import { hasMethods } from './revocable-handle.ts'

/** What we use of a client of the pool: it is an event emitter. */
interface PoolClient {
  on(event: 'error', listener: () => void): unknown
  removeListener(event: 'error', listener: () => void): unknown
  release(destroy: boolean): void
}

type Taken = (error: unknown, client?: unknown) => void

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
    // By a callback: the server's last word may be in the same packet as the answer that freed the client, and is told
    // before a promise is.
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
    // A Drizzle that gives it back itself: the pool refuses to take it twice.
  }
}

function ignore(): void {}
