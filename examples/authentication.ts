/**
 * Returns the caller: the owner of the token in `Authorization: Bearer …`. You may use sessions or JWTs instead. The
 * scope of a key must come from the authenticated identity, never from a header that the client chooses. An unknown
 * caller is '', which is refused.
 */
export function customerOf(authorization: string | undefined): string {
  return TOKENS.get(authorization ?? '') ?? ''
}

const TOKENS = new Map([
  ['Bearer token-of-ann', 'ann'],
  ['Bearer token-of-ben', 'ben'],
])
