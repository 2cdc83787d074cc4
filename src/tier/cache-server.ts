/**
 * The server of a shared cache. Each method is one request, and the server compares and writes in one step. Keys and
 * entries are text. `forMs`: the server forgets the key after this time.
 */
export interface CacheServer {
  /** The name of the server in messages. */
  readonly name: string
  /** False: there is no connection, so a request would wait. */
  isReady(): boolean
  /** Returns the entry. If there is none, plants the nonce instead, over any other nonce, and returns null. */
  look(params: LookParams): Promise<string | null>
  /** Replaces the nonce by the entry. False: the nonce is no longer there. */
  write(params: WriteParams): Promise<boolean>
  /** Removes entries and nonces. Resolves when the server has done it. */
  drop(keys: readonly string[]): Promise<void>
}

export interface LookParams {
  readonly key: string
  readonly nonce: string
  readonly forMs: number
}

export interface WriteParams extends LookParams {
  readonly entry: string
}
