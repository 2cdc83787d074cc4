/**
 * Writes frontend messages of the PostgreSQL protocol one behind the other, so that a group of statements is one buffer
 * and one write to the socket.
 * https://www.postgresql.org/docs/current/protocol-message-formats.html
 */
const PARSE = 0x50
const BIND = 0x42
const DESCRIBE = 0x44
const EXECUTE = 0x45
const CLOSE = 0x43
const SYNC = 0x53
const STATEMENT = 0x53
const PORTAL = 0x50
const FIRST_SIZE = 4_096
/** A larger scratch buffer is not kept after use. */
const KEPT_SIZE = 65_536

export type WireValue = string | Uint8Array | null

let scratch: Buffer = Buffer.allocUnsafe(FIRST_SIZE)
let at = 0
let openedAt = 0

/** Every group begins here, so that a group that could not be written completely leaves nothing behind. */
export function startGroup(): void {
  at = 0
}

/** `Parse`: the server infers the types of all parameters. */
export function writeParse(name: string, text: string): void {
  open(PARSE)
  cString(name)
  cString(text)
  int16(0)
  close()
}

/** `Bind` to the unnamed portal, results as text. Bytes travel in binary, everything else as text. */
export function writeBind(name: string, values: readonly WireValue[]): void {
  open(BIND)
  room(1)
  scratch[at++] = 0
  cString(name)
  int16(values.length)
  for (const value of values) int16(typeof value === 'string' || value === null ? 0 : 1)
  int16(values.length)
  for (const value of values) {
    if (value === null) int32(-1)
    else if (typeof value === 'string') sized(value)
    else bytes(value)
  }
  int16(0)
  close()
}

export function writeDescribePortal(): void {
  open(DESCRIBE)
  room(2)
  scratch[at++] = PORTAL
  scratch[at++] = 0
  close()
}

export function writeExecute(): void {
  open(EXECUTE)
  room(1)
  scratch[at++] = 0
  int32(0)
  close()
}

/** Closes a prepared statement. It is not an error if the statement does not exist. */
export function writeCloseStatement(name: string): void {
  open(CLOSE)
  room(1)
  scratch[at++] = STATEMENT
  cString(name)
  close()
}

/** Ends the group and returns its bytes. */
export function writeSync(): Uint8Array {
  open(SYNC)
  close()
  // The socket may keep the bytes until the kernel accepts them, so it never gets the scratch buffer.
  const group = Buffer.allocUnsafe(at)
  scratch.copy(group, 0, 0, at)
  if (scratch.length > KEPT_SIZE) scratch = Buffer.allocUnsafe(FIRST_SIZE)
  return group
}

function open(code: number): void {
  room(5)
  scratch[at] = code
  openedAt = at + 1
  at += 5
}

function close(): void {
  scratch.writeInt32BE(at - openedAt, openedAt)
}

function room(size: number): void {
  if (scratch.length - at >= size) return
  const larger = Buffer.allocUnsafe(Math.max(scratch.length * 2, at + size))
  scratch.copy(larger, 0, 0, at)
  scratch = larger
}

function int16(value: number): void {
  room(2)
  scratch[at++] = value >>> 8
  scratch[at++] = value
}

function int32(value: number): void {
  room(4)
  scratch[at++] = value >>> 24
  scratch[at++] = value >>> 16
  scratch[at++] = value >>> 8
  scratch[at++] = value
}

function cString(text: string): void {
  room(text.length * 3 + 1)
  at += scratch.write(text, at)
  scratch[at++] = 0
}

function sized(text: string): void {
  room(text.length * 3 + 4)
  const length = scratch.write(text, at + 4)
  scratch.writeInt32BE(length, at)
  at += length + 4
}

function bytes(value: Uint8Array): void {
  int32(value.length)
  room(value.length)
  scratch.set(value, at)
  at += value.length
}
