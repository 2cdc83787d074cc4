const CHUNK = 8_192

/** One character per byte. TextDecoder's "latin1" is windows-1252, which differs. */
export function latin1(bytes: Uint8Array): string {
  let text = ''
  for (let at = 0; at < bytes.length; at += CHUNK) text += String.fromCharCode(...bytes.subarray(at, at + CHUNK))
  return text
}
