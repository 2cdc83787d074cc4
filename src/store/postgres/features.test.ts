import { expect, it } from 'vitest'
import { pgStore } from './pg.ts'

it('PostgreSQL takes many claims at a time, and ends what takes too long', () => {
  const pool = { connect: async () => {}, query: async () => {}, totalCount: 0, idleCount: 0 }
  const { features } = pgStore(pool as never)
  expect(features).toEqual({ transactional: true, concurrentClaims: true, serverDeadline: true })
})
