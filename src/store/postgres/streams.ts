import type { AppendParams, ReadChunksParams, StoredChunk, Streams } from '../streams.ts'
import type { Row } from '../store.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import type { Bind } from './statements.ts'

/** The most chunks of one answer. */
const ROWS_MAX = 256

/** Recorded streams on PostgreSQL: every method is one statement that commits by itself. */
export class PostgresStreams<Tx> implements Streams {
  readonly #driver: PgDriver<Tx>
  readonly #bind: Bind
  readonly #schema: string

  constructor(driver: PgDriver<Tx>, bind: Bind, schema: string) {
    this.#driver = driver
    this.#bind = bind
    this.#schema = schema
  }

  async append({ id, token, life, start, bytes }: AppendParams): Promise<boolean> {
    const statement = this.#bind('appendChunk', [id, token, life, start, bytes])
    return (await told(this.#schema, () => this.#driver.query(statement))).length === 1
  }

  async read({ id, life, from, bytes }: ReadChunksParams): Promise<readonly StoredChunk[]> {
    const statement = this.#bind('readChunks', [id, life, from, bytes, ROWS_MAX])
    return (await told(this.#schema, () => this.#driver.query(statement))).map(chunkOf)
  }
}

function chunkOf(row: Row): StoredChunk {
  return { start: Number(row['start']), bytes: Buffer.from(String(row['body']), 'base64') }
}
