import { parseArgs } from 'node:util'

/** The default and the least value of each option. */
type Counts = Readonly<Record<string, readonly [fallback: number, min: number]>>

/** Reads `--NAME N` for each count, and `--json`. */
export function readCounts<C extends Counts>(counts: C): { readonly [name in keyof C]: number } & { json: boolean } {
  const names = Object.keys(counts)
  const texts = Object.fromEntries(names.map((name) => [name, { type: 'string' } as const]))
  const { values } = parseArgs({ options: { ...texts, json: { type: 'boolean', default: false } } })
  const given = values as Readonly<Record<string, string | boolean | undefined>>
  const read = Object.entries(counts).map(([name, [fallback, min]]) => {
    const value = given[name] === undefined ? fallback : Number(given[name])
    if (!Number.isInteger(value) || value < min) throw new Error(`--${name} must be a whole number from ${min}`)
    return [name, value]
  })
  return { ...Object.fromEntries(read), json: given['json'] === true } as ReturnType<typeof readCounts<C>>
}

/** Prints each count above 0 as a broken guarantee, and returns the exit code. */
export function judged(broken: Readonly<Record<string, number>>): number {
  const problems = Object.entries(broken).filter(([, n]) => n > 0)
  for (const [what, n] of problems) console.error(`BROKEN: ${n} ${what}`)
  return problems.length > 0 ? 1 : 0
}
