import { createHmac } from 'node:crypto'
import { invalid } from '../options.ts'

const PREFIX = 'whsec_'
const SECRET_BYTES_MIN = 8

/**
 * The bytes of a secret: base64 after the prefix `whsec_`, as Standard Webhooks writes it. Any other text is used
 * unchanged.
 */
export function secretBytes(secret: string): Uint8Array {
  if (typeof secret !== 'string' || secret.length < 16) {
    throw invalid('a webhook secret must have at least 16 characters')
  }
  if (!secret.startsWith(PREFIX)) return Buffer.from(secret)
  const bytes = Buffer.from(secret.slice(PREFIX.length), 'base64')
  if (bytes.byteLength >= SECRET_BYTES_MIN) return bytes
  const detail = `a webhook secret that begins with ${PREFIX} must continue with base64 of at least ${SECRET_BYTES_MIN} bytes`
  throw invalid(detail)
}

/** Standard Webhooks: one `v1` signature per secret, so that a receiver can change its secret without a gap. */
export function signatureOf(
  secrets: readonly Uint8Array[],
  signed: { readonly id: string; readonly timestamp: string; readonly body: string },
): string {
  const content = `${signed.id}.${signed.timestamp}.${signed.body}`
  return secrets.map((secret) => `v1,${createHmac('sha256', secret).update(content).digest('base64')}`).join(' ')
}
