import { describe, expect, it } from 'vitest'
import { inboxStatements } from './inbox-statements.ts'
import { preparedName, NAME_BYTES_MAX } from './name.ts'
import { statements } from './statements.ts'

describe('the name of a prepared statement', () => {
  const schema = (length: number, last: string): string => `"${'s'.repeat(length - 1)}${last}"`

  it('can be read where it fits', () => {
    expect(preparedName('"effectively_once"', 'claim', 'select 1')).toMatch(/^"effectively_once"\.claim\.[0-9a-f]{8}$/)
  })

  it('belongs to one text: behind a pooler, processes of two versions share the connections of the server', () => {
    const names = ['select 1', 'select 2'].map((text) => preparedName('"effectively_once"', 'claim', text))
    expect(names[0]).not.toBe(names[1])
    for (const { name, text } of [statements('"a"')('claim', []), inboxStatements('"a"')('letterRead', [])]) {
      expect(name).toBe(preparedName('"a"', name.split('.')[1] ?? '', text))
    }
  })

  it('fits for every schema, and is its own', () => {
    const names = new Set<string>()
    const statements = ['claim', 'complete', 'completeLeasedOrdered', 'inboxDoneBeside']
    const schemas = Array.from({ length: 63 }, (_, i) => i + 1).flatMap((length) =>
      ['a', 'b'].map((last) => schema(length, last)),
    )
    for (const of of schemas) for (const statement of statements) names.add(preparedName(of, statement, 'select 1'))
    expect(names.size).toBe(schemas.length * statements.length)
    for (const name of names) expect(Buffer.byteLength(name)).toBeLessThanOrEqual(NAME_BYTES_MAX)
  })
})
