import type { AppendParams, ReadChunksParams, StoredChunk } from '../../streams.ts'
import type { Work } from '../database/connection.ts'
import { chunkKey, isHeldBy } from '../database/rows.ts'

/** Locks the record row in the same statement. So it waits for an uncommitted takeover, and then sees it. */
export async function appendChunk({ database, tx }: Work, params: AppendParams): Promise<boolean> {
  const { id, token, start, bytes } = params
  if ((await database.records.lock(id, tx, 'share', isHeldBy({ token }))) === undefined) return false
  const life = Number(params.life)
  // A chunk that is already there was written by this attempt, whose reply was lost.
  await database.chunks.insert(chunkKey(id, life, start), { id, life, start, bytes: bytes.slice() }, tx)
  return true
}

export function readChunks({ database, tx }: Work, { id, life, from, bytes }: ReadChunksParams): StoredChunk[] {
  const all = database.chunks
    .rows(tx)
    .map(([, row]) => row)
    .filter((row) => row.id === id && String(row.life) === life)
    .sort((a, b) => a.start - b.start)
  const first = all.findLastIndex(({ start }) => start <= from)
  const found: StoredChunk[] = []
  let total = 0
  for (const row of all.slice(Math.max(first, 0))) {
    if (found.length > 0 && total >= bytes) break
    found.push({ start: row.start, bytes: row.bytes })
    total += row.bytes.byteLength
  }
  return found
}

/** Chunks die with the record that they belong to. */
export function dropChunks({ database, tx }: Work, ids: ReadonlySet<string>): void {
  for (const [key, { id }] of database.chunks.rows(tx)) if (ids.has(id)) database.chunks.put(key, undefined, tx)
}
