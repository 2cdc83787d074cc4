/** What a client sends to name its operation: whose it is, and its key. */
export interface Address {
  readonly scope: string
  readonly key: string
}

export const SCOPE = 'tenant'

/**
 * The nth operation of a world with several tenants. Two and two read the same when they are written one after the other
 * ('a' and 'bc', 'ab' and 'c'), the next two have the same key in different scopes.
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
