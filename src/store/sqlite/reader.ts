import { onceError } from '../../errors.ts'
import { WRITER_WAIT_MS_MAX } from '../../limits.ts'
import type { Row } from '../store.ts'
import type { OpenFile } from './client.ts'
import { Connection } from './connection.ts'
import { storeFailure } from './failure.ts'
import { type BusyRetry, whileBusy } from './busy-retry.ts'
import type { Bindable } from './value.ts'
import type { Writer } from './writer.ts'

/** Reads only committed data, and never through the connection that writes. */
export interface Reader {
  all(sql: string, values?: readonly Bindable[]): Promise<Row[]>
  close(): Promise<void>
}

export function fileReader(retry: BusyRetry, library: () => Promise<OpenFile>): Reader {
  const connection = new Connection(retry, 'reads', library)
  let closed = false
  return {
    async all(sql, values) {
      if (closed) throw onceError('ONCE_CLOSED')
      try {
        const client = await connection.client()
        await new Promise<void>((resolve) => retry.eventLoop.before(resolve))
        return await whileBusy(retry, retry.clock.now() + WRITER_WAIT_MS_MAX, () => client.all(sql, values))
      } catch (error) {
        throw storeFailure(error, retry.file)
      }
    },
    close() {
      closed = true
      return connection.close()
    },
  }
}

/** A database in memory belongs to one connection, so its readers wait for their turn between transactions. */
export function memoryReader(writer: Writer): Reader {
  return {
    all: (sql, values) => writer.write((turn) => turn.all(sql, values)),
    close: () => Promise.resolve(),
  }
}
