/** What a stream of the chaos run contains. Every attempt can compute each chunk, so that readers can compare bytes. */
export const KINDS = ['events', 'lines', 'bytes'] as const
export type Kind = (typeof KINDS)[number]

export const TYPES: Readonly<Record<Kind, string>> = {
  events: 'text/event-stream',
  lines: 'application/x-ndjson',
  bytes: 'application/octet-stream',
}

export interface Stream {
  readonly name: string
  readonly kind: Kind
  readonly chunks: number
  /** About how large a chunk is. Default: a few bytes */
  readonly chunkBytes?: number
}

export function chunkOf({ name, kind, chunkBytes = 0 }: Stream, no: number): string {
  // Sizes differ, so that a chunk in the wrong place is noticed.
  const said = `${name}:${no}:${'x'.repeat(chunkBytes + ((no * 7) % 13))}`
  if (kind === 'events') return `data: ${said}\n\n`
  return kind === 'lines' ? `{"said":"${said}"}\n` : `<${said}>`
}

export function contentOf(stream: Stream): string {
  let text = ''
  for (let no = 0; no < stream.chunks; no++) text += chunkOf(stream, no)
  return text
}

/** Without the ids that the library adds. */
export function plain(text: string): string {
  return text.replaceAll(/^id: @\d+\n/gm, '')
}

/** The chunks behind what is written, in bytes without ids. A stream of bytes may have been cut inside a chunk. */
export function* rest(stream: Stream, written: number): Generator<string> {
  let left = written
  for (let no = 0; no < stream.chunks; no++) {
    const chunk = chunkOf(stream, no)
    if (left < chunk.length) yield chunk.slice(left)
    left = Math.max(0, left - chunk.length)
  }
}
