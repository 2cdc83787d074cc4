import type { webcrypto } from 'node:crypto'
import { onceError } from '../errors.ts'
import { invalid } from '../options.ts'

/** Encrypts bytes so that they can be decrypted only with their own record. */
export interface Seal {
  seal(plain: Uint8Array, binding: string): Promise<{ readonly keyId: string; readonly bytes: Uint8Array }>
  open(keyId: string, sealed: Uint8Array, binding: string): Promise<Uint8Array>
}

const NONCE_BYTES = 12
const TAG_BYTES = 16
const encoder = new TextEncoder()

/**
 * AES-256-GCM. The first key encrypts, and the others only decrypt. To rotate a key, put the new key first, and remove
 * the old one when `replayFor` has passed. Identity, fingerprint and status are authenticated, so an answer that was
 * copied into another record cannot be decrypted.
 */
export function createSeal(keys: readonly { readonly id: string; readonly secret: Uint8Array }[]): Seal {
  const [first] = keys ?? []
  if (!first) throw invalid('encrypt.keys needs at least one key')
  const known = new Map<string, Promise<webcrypto.CryptoKey>>()
  for (const { id, secret } of keys) {
    if (typeof id !== 'string' || !/^[\w.-]{1,50}$/.test(id) || known.has(id)) {
      throw invalid('encrypt.keys need distinct ids of letters, digits, dots and dashes')
    }
    if (!(secret instanceof Uint8Array) || secret.byteLength !== 32)
      throw invalid('encrypt.keys need secrets of 32 bytes')
    known.set(id, importKey(secret))
  }
  return {
    async seal(plain, binding) {
      const nonce = crypto.getRandomValues(new Uint8Array(NONCE_BYTES))
      const key = await (known.get(first.id) as Promise<webcrypto.CryptoKey>)
      const sealed = new Uint8Array(await crypto.subtle.encrypt(algorithm(nonce, binding), key, plain))
      const bytes = new Uint8Array(NONCE_BYTES + sealed.byteLength)
      bytes.set(nonce)
      bytes.set(sealed, NONCE_BYTES)
      return { keyId: first.id, bytes }
    },
    async open(keyId, sealed, binding) {
      const key = await known.get(keyId)
      if (!key) throw cannotOpen(`The answer was sealed with the key '${keyId.slice(0, 50)}', which is not configured`)
      if (sealed.byteLength < NONCE_BYTES + TAG_BYTES) throw cannotOpen('The sealed answer is too short')
      const nonce = sealed.subarray(0, NONCE_BYTES)
      try {
        const plain = await crypto.subtle.decrypt(algorithm(nonce, binding), key, sealed.subarray(NONCE_BYTES))
        return new Uint8Array(plain)
      } catch {
        throw cannotOpen('The sealed answer does not belong to this record')
      }
    },
  }
}

function importKey(secret: Uint8Array): Promise<webcrypto.CryptoKey> {
  const copy = new Uint8Array(secret)
  return crypto.subtle.importKey('raw', copy, 'AES-GCM', false, ['encrypt', 'decrypt'])
}

function algorithm(nonce: Uint8Array, binding: string): webcrypto.AesGcmParams {
  return { name: 'AES-GCM', iv: nonce, additionalData: encoder.encode(binding) }
}

function cannotOpen(detail: string): Error {
  return onceError('ONCE_UNREPLAYABLE', { detail })
}
