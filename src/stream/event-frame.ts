const NEWLINE = 10
const RETURN = 13
const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** The id that an event without its own id gets: the position behind it. */
export const LIBRARY_ID: RegExp = /^@(\d{1,15})$/

/** Splits the bytes of an event stream into whole events, with the empty line behind each, and the rest. */
export function eventsIn(bytes: Uint8Array): { readonly frames: Uint8Array[]; readonly rest: Uint8Array } {
  const frames: Uint8Array[] = []
  let from = 0
  let line = 0
  for (let at = bytes.indexOf(NEWLINE); at >= 0; at = bytes.indexOf(NEWLINE, line)) {
    const isEmpty = at === line || (at === line + 1 && bytes[line] === RETURN)
    line = at + 1
    if (!isEmpty) continue
    frames.push(bytes.subarray(from, line))
    from = line
  }
  return { frames, rest: bytes.subarray(from) }
}

/** The own id of an event. Null: it has none. */
export function idOf(frame: Uint8Array): string | null {
  let id: string | null = null
  for (const line of decoder.decode(frame).split(/\r?\n/)) {
    if (line === 'id') id = ''
    else if (line.startsWith('id:')) id = line.slice(line.startsWith('id: ') ? 4 : 3)
  }
  return id
}

/** Adds an id: the position behind the event, so that a client goes on there. */
export function withId(frame: Uint8Array, at: number): Uint8Array {
  const bare = at + frame.byteLength + 'id: @\n'.length
  let end = bare + String(bare).length
  // A longer number may itself need one digit more.
  end = bare + String(end).length
  const line = encoder.encode(`id: @${end}\n`)
  const made = new Uint8Array(line.byteLength + frame.byteLength)
  made.set(line)
  made.set(frame, line.byteLength)
  return made
}

/** The position of a library id. Null: another id. */
export function positionOf(id: string): number | null {
  const position = LIBRARY_ID.exec(id)?.[1]
  return position === undefined ? null : Number(position)
}

/** The id of the last event that has one. */
export function lastIdIn(bytes: Uint8Array): string | null {
  const { frames } = eventsIn(bytes)
  for (const frame of frames.toReversed()) {
    const id = idOf(frame)
    if (id !== null) return id
  }
  return null
}
