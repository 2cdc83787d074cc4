import type { Layer } from '../case.ts'

/** What some layers say before the route, where no package says it. On a replay they say it again. */
export function saidBefore(layer: Layer): readonly (readonly [name: string, value: string])[] {
  if (layer === 'helmet')
    return [
      ['x-content-type-options', 'nosniff'],
      ['content-security-policy', "default-src 'self'"],
      ['x-l-policy', 'strict'],
    ]
  if (layer === 'cors')
    return [
      ['access-control-allow-origin', 'https://shop.example'],
      ['access-control-allow-credentials', 'true'],
      ['vary', 'Origin'],
    ]
  return []
}

/** Shorter ones are not worth it. */
export const COMPRESSED_BYTES_MIN = 100
