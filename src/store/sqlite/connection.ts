import { WRITER_WAIT_MS_MAX } from '../../limits.ts'
import type { Client, OpenFile } from './client.ts'
import { unavailable } from './failure.ts'
import { type BusyRetry, whileBusy } from './busy-retry.ts'

/** A commit returns only when the data is on disk. SQLite itself never waits. */
const WRITING = [
  'pragma busy_timeout = 0',
  'pragma journal_mode = wal',
  'pragma synchronous = full',
  'pragma foreign_keys = on',
]
const READING = ['pragma busy_timeout = 0', 'pragma query_only = on']

/** A private connection, opened on first use and again after a failure. */
export class Connection {
  readonly #retry: BusyRetry
  readonly #settings: readonly string[]
  readonly #library: () => Promise<OpenFile>
  #opening: Promise<Client> | undefined

  constructor(retry: BusyRetry, role: 'writes' | 'reads', library: () => Promise<OpenFile>) {
    this.#retry = retry
    this.#settings = role === 'writes' ? WRITING : READING
    this.#library = library
  }

  client(): Promise<Client> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = undefined
      throw error
    })
    return this.#opening
  }

  async close(): Promise<void> {
    const opening = this.#opening
    this.#opening = undefined
    const client = await opening?.catch(() => undefined)
    if (!client) return
    if (this.#settings === WRITING) emptyLog(client)
    client.close()
  }

  async #open(): Promise<Client> {
    const open = await this.#library()
    const client = this.#openFile(open)
    const until = this.#retry.clock.now() + WRITER_WAIT_MS_MAX
    try {
      for (const setting of this.#settings) await whileBusy(this.#retry, until, () => set(client, setting))
    } catch (error) {
      client.close()
      throw error
    }
    return client
  }

  #openFile(open: OpenFile): Client {
    try {
      return open(this.#retry.file)
    } catch (error) {
      throw unavailable(this.#retry.file, error)
    }
  }
}

/** Empties the log file, even if a library keeps the connection open for a while. */
function emptyLog(client: Client): void {
  try {
    client.all('pragma wal_checkpoint(truncate)')
  } catch {
    // Another connection uses the file. The last one that closes it empties the log.
  }
}

function set(client: Client, setting: string): void {
  if (client.returnsRows(setting)) client.all(setting)
  else client.run(setting)
}
