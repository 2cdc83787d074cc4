import { expect, it } from 'vitest'
import { judge } from '../../bench/bars.ts'

/** What the project promises about its cost, and by how much each figure may miss it: not at all. */
const CPU = {
  'fastify.atomic/fastify.bare': 1.7,
  'fastify.atomicEvent/fastify.handEvent': 1,
  'express.atomic/express.bare': 1.6,
  'fastify.batched/fastify.bare': 0.75,
  'fastify.replayDatabase/fastify.bare': 0.7,
  'fastify.replayMemory/fastify.bare': 0.2,
}
const AT_LEAST = {
  'leased/bare4Prepared': 0.55,
  'batched128/bare4Prepared': 3,
  'sqliteAtomic/sqliteBare': 0.6,
  'sqliteBatched/sqliteBare': 1.5,
}
const AT_MOST = { 'operation10M/operation10k': 1.1, 'memoryEnd/memoryStart': 1.1 }
const scaled = (figures: Record<string, number>, factor: number): Record<string, number> =>
  Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, value * factor]))
const NONE = { cpu: {}, ratios: {}, rates: {} }

it.each([
  ['cpu', CPU, 1.001],
  ['ratios', AT_MOST, 1.001],
  ['ratios', AT_LEAST, 0.999],
] as const)('each bar of %s holds at its figure, and is missed beyond it: %j', (kind, bars, beyond) => {
  const at = judge({ ...NONE, [kind]: bars })
  expect(at.map(({ ratio }) => ratio).toSorted()).toEqual(Object.keys(bars).toSorted())
  expect(at.filter(({ holds }) => !holds)).toEqual([])
  expect(judge({ ...NONE, [kind]: scaled(bars, beyond) }).filter(({ holds }) => holds)).toEqual([])
})
