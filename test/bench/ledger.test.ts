import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { asText, growths, type Entry, type Ledger } from '../../bench/ledger/entry.ts'
import { HTTP_OPERATIONS } from '../../bench/ledger/http.ts'
import { OPERATIONS } from '../../bench/ledger/measure.ts'
import { SQLITE_OPERATIONS } from '../../bench/ledger/sqlite.ts'

const kept: Entry = { statements: 5, trips: 3, rows: 4, walBytes: 1000, cpuToBare: 2 }
const found = (now: Partial<Entry>) => growths({ atomic: kept }, { atomic: { ...kept, ...now } }).map(asText)

it('the same and less are no growth', () => {
  expect(found({})).toEqual([])
  expect(found({ statements: 4, trips: 2, rows: 3, walBytes: 900, cpuToBare: 1.5 })).toEqual([])
})

it.each([
  [{ statements: 5.01 }, 'atomic: statements 5 before, 5.01 now (+0 %)'],
  [{ trips: 3.5 }, 'atomic: trips 3 before, 3.5 now (+17 %)'],
  [{ rows: 5 }, 'atomic: rows 4 before, 5 now (+25 %)'],
  [{ walBytes: 1051 }, 'atomic: walBytes 1000 before, 1051 now (+5 %)'],
  [{ cpuToBare: 2.31 }, 'atomic: cpuToBare 2 before, 2.31 now (+16 %)'],
])('growth is told: %j', (now, text) => {
  expect(found(now)).toEqual([text])
})

it.each([{ walBytes: 1050 }, { cpuToBare: 2.3 }])('up to the allowance it is not: %j', (now) => {
  expect(found(now)).toEqual([])
})

it('what could not be measured counts as growth', () => {
  expect(found({ cpuToBare: Number.NaN })).toHaveLength(1)
})

it('an operation that is new, or gone, asks for a new ledger', () => {
  expect(() => growths({}, { atomic: kept })).toThrow('the ledger has no atomic')
  expect(() => growths({ atomic: kept }, {})).toThrow('atomic is in the ledger and was not measured')
})

it('the kept ledger has each operation', async () => {
  const ledger = JSON.parse(await readFile('bench/ledger.json', 'utf8')) as Ledger
  const { sqlite = {}, ...postgres } = ledger
  expect(Object.keys(postgres)).toEqual(['15', '18'])
  const names = [...Object.keys(OPERATIONS), ...HTTP_OPERATIONS.map((name) => `fastify.${name}`)]
  for (const entries of Object.values(postgres)) expect(Object.keys(entries)).toEqual(names)
  expect(Object.keys(sqlite)).toEqual(Object.keys(SQLITE_OPERATIONS))
})
