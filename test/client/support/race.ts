import type { CallStorage } from '../../../src/client/types.ts'

const NAMES = 3
const ROUNDS = 60

/** Competes with other processes or tabs for the versions of a few names. Returns what this one won. */
export async function race(storage: CallStorage, number: number): Promise<string[]> {
  const won: string[] = []
  for (let round = 0; round < ROUNDS; round++) {
    const name = `name ${round % NAMES}`
    const mine = `${name} by ${number} in ${round}`
    const text = await storage.add(name, mine)
    // Each text is won once by the one that added it, and once by the one that ended it.
    if (text === mine) won.push(`added ${text}`)
    if (await storage.swap(name, text, round % 2 === 0 ? null : `${mine} again`)) won.push(`ended ${text}`)
  }
  return won
}
