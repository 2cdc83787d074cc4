import type { LeaseHolder } from './session.ts'

/**
 * Recorded streams: the bytes of an answer, in chunks that are only appended. A chunk belongs to the life of an
 * operation, and its position is its key. So a position is written once, and no attempt rewrites it.
 */
export interface Streams {
  /**
   * Appends one chunk, if this attempt still holds the lease. The same statement checks the token. The same chunk may be
   * sent again after a lost reply. False: another attempt holds the lease, and nothing was written.
   */
  append(params: AppendParams): Promise<boolean>
  /**
   * Reads chunks in order, from the one that holds the position `from`. The answer ends after `bytes` bytes, but has at
   * least one chunk if there is one.
   */
  read(params: ReadChunksParams): Promise<readonly StoredChunk[]>
}

export interface AppendParams extends LeaseHolder {
  readonly life: string
  /** The position of the first byte. `HEAD`: the status and headers. */
  readonly start: number
  readonly bytes: Uint8Array
}

export interface ReadChunksParams {
  readonly id: string
  readonly life: string
  readonly from: number
  /** About how many bytes to read at once. */
  readonly bytes: number
}

export interface StoredChunk {
  readonly start: number
  readonly bytes: Uint8Array
}

/** The position of the status and headers. The first byte of the body has the position 0. */
export const HEAD = -1
