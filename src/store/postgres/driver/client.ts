/**
 * The part of node-postgres that we use, as structural types: nothing is imported from it, not even types. The public
 * methods of pool and client are for type inference. The wire is what every pg 8 passes to a `Submittable` (pg-cursor,
 * pg-query-stream).
 */
export interface PoolLike<C extends PoolClientLike> {
  connect(): Promise<C>
  connect(callback: (error: Error | undefined, client: C | undefined, done: (release?: unknown) => void) => void): void
  readonly totalCount: number
  readonly idleCount: number
  /** Callers that wait for a connection. */
  readonly waitingCount?: number
}

export interface PoolClientLike {
  query: (...args: never[]) => unknown
  release: (...args: never[]) => unknown
}

/** `tx` in a handler: the pool's client without the methods that end it. */
export type PgTx<C> = Omit<C, 'release' | 'connect' | 'end'>

/** The same pool as it is at run time. Optional members may be missing in older or wrapped pools. */
export interface PgPool {
  connect(callback: (error: Error | undefined, client: PgClient | undefined) => void): void
  query(...args: unknown[]): unknown
  readonly totalCount: number
  readonly idleCount: number
  /** Callers that wait for a connection. */
  readonly waitingCount?: number
  readonly ending?: boolean
  readonly options?: {
    readonly max?: number
    readonly connectionTimeoutMillis?: number
    readonly onConnect?: (client: PgClient) => unknown
  }
  readonly Client?: (new (options: unknown) => PgClient) & { readonly Query?: unknown }
}

export interface PgClient {
  query(config: unknown, values?: unknown, callback?: unknown): unknown
  on(event: 'error', listener: (error: unknown) => void): unknown
  removeListener(event: 'error', listener: (error: unknown) => void): unknown
  release?(destroy?: boolean): void
  connect(): Promise<unknown>
  end(): Promise<void>
  ref?(): void
  unref?(): void
  getTypeParser(oid: number, format: 'text'): (text: string) => unknown
  getTransactionStatus?(): string | null
  readonly connection?: PgWire
  /** pg pipelines by itself, and refuses submittables. */
  readonly pipeline?: boolean
  /** pg-native. */
  readonly native?: unknown
  /** Results in binary. */
  readonly binary?: boolean
}

/** pg's Connection. */
export interface PgWire {
  readonly stream: {
    readonly writable: boolean
    write(bytes: Uint8Array): boolean
    cork?(): void
    uncork?(): void
    destroy(error?: Error): unknown
  }
  /** The statements that pg itself prepared on this connection: name → text. */
  readonly parsedStatements?: Readonly<Record<string, string>>
  readonly submittedNamedStatements?: Readonly<Record<string, string>>
}
