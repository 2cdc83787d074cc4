import { onceError } from '../errors.ts'

/**
 * The algorithms that RFC 9530 calls active, with the form of their digests in base64. Weaker ones do not identify a
 * body.
 */
const ALGORITHMS: ReadonlyMap<string, RegExp> = new Map([
  ['sha-256', /^:[A-Za-z0-9+/]{43}=:$/],
  ['sha-512', /^:[A-Za-z0-9+/]{86}==:$/],
])

/**
 * Returns one spelling of a `Content-Digest` or `Repr-Digest` value (`sha-256=:…:, sha-512=:…:`): known algorithms,
 * sorted.
 */
export function canonicalDigest(value: string): string {
  const found = new Map<string, string>()
  for (const entry of value.split(',')) {
    const equals = entry.indexOf('=')
    const name = entry.slice(0, Math.max(equals, 0)).trim()
    const shape = ALGORITHMS.get(name)
    if (shape === undefined) continue
    const digest = entry.slice(equals + 1).trim()
    if (!shape.test(digest) || found.has(name)) throw invalid(`The ${name} digest of the body is malformed`)
    found.set(name, digest)
  }
  if (found.size === 0) throw invalid('The digest of the body names neither sha-256 nor sha-512')
  return [...ALGORITHMS.keys()].flatMap((name) => (found.has(name) ? [`${name}=${found.get(name)}`] : [])).join(',')
}

/** Checks that every digest in the value matches the bytes. */
export async function checkDigest(value: string, bytes: Uint8Array): Promise<void> {
  for (const entry of canonicalDigest(value).split(',')) {
    const name = entry.slice(0, entry.indexOf('='))
    const said = entry.slice(entry.indexOf('=') + 2, -1)
    const made = new Uint8Array(await crypto.subtle.digest(name.toUpperCase(), new Uint8Array(bytes)))
    if (btoa(String.fromCharCode(...made)) !== said) throw invalid(`The body does not match its ${name} digest`)
  }
}

function invalid(detail: string): Error {
  return onceError('ONCE_BODY_INVALID', { detail })
}
