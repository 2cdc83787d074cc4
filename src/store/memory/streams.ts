import type { Streams } from '../streams.ts'
import { autocommit, type Client } from './client.ts'

/** Recorded streams in memory. Every method is one statement that commits by itself. */
export function memoryStreams(client: Client): Streams {
  const { statements } = client
  return {
    append: (params) => autocommit(client, 'appendChunk', (work) => statements.appendChunk(work, params)),
    read: (params) => autocommit(client, 'readChunks', (work) => statements.readChunks(work, params)),
  }
}
