import { createHash, hash } from 'node:crypto'

/**
 * The only door to a hash function, so that another runtime needs one other file. Parts are hashed as if they were
 * one: whoever passes several has to frame them (see key/frame.ts). Strings are hashed as UTF-8, which maps every
 * lone surrogate to the same three bytes; framing takes care of that too.
 */
export interface Sha256 {
  update(part: string | Uint8Array): Sha256
  digest(): Uint8Array
  digestHex(): string
}

export function createSha256(): Sha256 {
  const inner = createHash('sha256')
  const self: Sha256 = {
    update(part) {
      inner.update(part)
      return self
    },
    digest: () => inner.digest(),
    digestHex: () => inner.digest('hex'),
  }
  return self
}

export function sha256(...parts: readonly (string | Uint8Array)[]): Uint8Array {
  const first = parts[0]
  if (parts.length === 1 && first !== undefined) return hash('sha256', first, 'buffer')
  const inner = createHash('sha256')
  for (const part of parts) inner.update(part)
  return inner.digest()
}

/** The hot path: one native call, no hash object and no buffer. Three times the speed of `sha256` on short text. */
export function sha256Hex(text: string): string {
  return hash('sha256', text)
}
