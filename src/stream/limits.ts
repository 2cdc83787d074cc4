/** Recorded streams. A chunk commits alone. An event of `text/event-stream` and a line of NDJSON fit into one chunk. */
export const STREAM_CHUNK_BYTES_MAX: number = 256 * 1024
export const STREAM_BYTES_MAX: number = 64 * 1024 * 1024
/** With this many bytes that are not yet committed, the producer waits. */
export const STREAM_QUEUE_BYTES: number = 128 * 1024
/** The newest bytes of a stream stay in the memory of its process, for the clients that follow it. */
export const STREAM_TAIL_BYTES: number = 64 * 1024
/** About how many bytes a reader gets from the store at once. */
export const STREAM_READ_BYTES: number = 64 * 1024
/** How often a reader looks for chunks of another process. The pause doubles while there are none. */
export const STREAM_POLL_MS_MIN = 20
export const STREAM_POLL_MS_MAX = 500
/** The pauses before a chunk is sent to a failing store again. */
export const STREAM_RETRY_MS_MIN = 50
export const STREAM_RETRY_MS_MAX = 1_000
