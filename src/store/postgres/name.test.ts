import { describe, expect, it } from 'vitest'
import { preparedName, NAME_BYTES_MAX } from './name.ts'

describe('the name of a prepared statement', () => {
  const schema = (length: number, last: string): string => `"${'s'.repeat(length - 1)}${last}"`

  it('can be read where it fits', () => {
    expect(preparedName('"effectively_once"', 'claim')).toBe('"effectively_once".claim')
  })

  it('fits for every schema, and is its own', () => {
    const names = new Set<string>()
    const statements = ['claim', 'complete', 'completeLeasedOrdered', 'inboxDoneBeside']
    const schemas = Array.from({ length: 63 }, (_, i) => i + 1).flatMap((length) =>
      ['a', 'b'].map((last) => schema(length, last)),
    )
    for (const of of schemas) for (const statement of statements) names.add(preparedName(of, statement))
    expect(names.size).toBe(schemas.length * statements.length)
    for (const name of names) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(NAME_BYTES_MAX)
  })
})
