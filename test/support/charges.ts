import type { Place } from './stores.ts'

let nextId = 0

/** Writes one charge through the handler's `tx`. Ids are drawn here, so that every dialect takes the same statement. */
export async function insertCharge(
  { bed }: Place,
  tx: unknown,
  key: string,
  amount = 1,
): Promise<{ id: number; key: string }> {
  const id = ++nextId
  await bed.raw(tx, 'insert into charges (id, key, amount) values ($1, $2, $3)', [id, key, amount])
  return { id, key }
}

export async function countCharges({ bed }: Place, key: string): Promise<number> {
  const [row] = await bed.admin('select count(*) as n from charges where key = $1', [key])
  return Number(row?.['n'])
}

export function later(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}

/** What a promise came to, as one word: 'value', or the code of its error. */
export async function outcomeOf(promise: Promise<unknown>): Promise<string> {
  try {
    await promise
    return 'value'
  } catch (error) {
    return (error as { code?: string }).code ?? (error as Error).name
  }
}
