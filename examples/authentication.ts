/**
 * Who calls: the owner of the token in `Authorization: Bearer …`. Whatever you use instead (sessions, JWTs), the scope of
 * a key must come from what was proved, never from a header the client chooses. Nobody is '', which is refused.
 */
export function customerOf(authorization: string | undefined): string {
  return TOKENS.get(authorization ?? '') ?? ''
}

const TOKENS = new Map([
  ['Bearer token-of-ann', 'ann'],
  ['Bearer token-of-ben', 'ben'],
])
