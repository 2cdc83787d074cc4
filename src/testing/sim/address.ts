/** The scope and the key by which a client names its operation. */
export interface Address {
  readonly scope: string
  readonly key: string
}

export const SCOPE = 'tenant'

/**
 * The address of the nth operation of a world with several tenants. Among each four, two pairs of scope and key
 * concatenate to the same text, such as 'a' + 'bc' and 'ab' + 'c'. The other two have the same key in different scopes.
 */
export function crossingAddress(n: number): Address {
  const word = `tenant-${Math.floor(n / 4)}-key`
  switch (n % 4) {
    case 0:
      return { scope: word.slice(0, 6), key: word.slice(6) }
    case 1:
      return { scope: word.slice(0, 8), key: word.slice(8) }
    case 2:
      return { scope: `${word}-x`, key: word }
    default:
      return { scope: `${word}-y`, key: word }
  }
}
