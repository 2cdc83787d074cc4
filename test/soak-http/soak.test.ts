import { expect, it } from 'vitest'
import { describePostgres } from '../support/postgres.ts'
import { ADAPTERS } from './kinds.ts'
import { problemsOf, soak } from './soak.ts'

for (const adapter of ADAPTERS) {
  describePostgres(adapter, (database) => {
    it('a few seconds of faults end nothing and mix nothing up', { timeout: 180_000 }, async () => {
      const result = await soak(adapter, { minutes: 0.1, url: database.url })
      // The heap of so short a run says nothing.
      expect(problemsOf(result, Infinity)).toEqual([])
    })
  })
}

it('a failure that nothing explains is named, and one that is explained has a limit', () => {
  const seen = { requests: 1_000, answers: 1_000, replays: 9, mismatches: 0, aborted: 0, closed: 0, foreign: 0 }
  const rest = { malformed: 0, twice: 0, seconds: 1, growth: 1, odd: {}, kinds: {}, uncaught: [], heap: [] }
  const problems = (unexpected: Record<string, number>): string[] =>
    problemsOf({ adapter: 'koa', ...seen, ...rest, unexpected }, 1.05)
  expect(problems({ ONCE_DEADLINE: 20, ONCE_STORE_UNAVAILABLE: 2 })).toEqual([])
  expect(problems({ ONCE_DEADLINE: 21 })).toEqual(['21 of 1000 answers were ONCE_DEADLINE'])
  expect(problems({ ONCE_INVARIANT: 1, '500 without a code': 1 })).toHaveLength(2)
})
