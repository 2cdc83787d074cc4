import { notSent } from './call-error.ts'
import type { CallState, PendingCall } from './types.ts'

/** A call as the storage keeps it, as JSON. */
export interface StoredCall {
  readonly name: string
  readonly key: string
  /** Of method, address, content type and body. */
  readonly hash: string
  readonly method: string
  readonly url: string
  /** Without secrets. */
  readonly headers: readonly (readonly [string, string])[]
  /** Base64. Removed when the call is done. */
  readonly body: string | null
  /** Other settings of fetch, such as `credentials`. */
  readonly init: Readonly<Record<string, string | undefined>>
  /** The time of day in milliseconds. */
  readonly since: number
  /** Makes two calls with the same given key different texts. */
  readonly nonce: string
  readonly state: Exclude<CallState, 'none'>
  /** When a call that is done or refused is forgotten. */
  readonly until?: number
  /** The code of the error that stopped the call. */
  readonly code?: string
}

/** A call with the exact text that is in the storage, which every change must name. */
export interface Kept {
  readonly call: StoredCall
  readonly text: string
}

export function keep(call: StoredCall): Kept {
  return { call, text: JSON.stringify(call) }
}

/** Throws if it is no call, because somebody else wrote or cut the text. */
export function read(text: string): Kept {
  try {
    const call = JSON.parse(text) as StoredCall
    if (call.key) return { call, text }
  } catch {}
  throw notSent('ONCE_STORAGE_FAILED', 503, 'the call cannot be read')
}

export function listed(call: StoredCall, running: boolean): PendingCall {
  const { name, key, method, url, since, code: stopped } = call
  return { name, key, method, url, since, running, stopped }
}

export function toBase64(bytes: Uint8Array): string {
  return btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(''))
}

export function fromBase64(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(atob(text), (character) => character.charCodeAt(0))
}
