import pg from 'pg'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { generatePrismaClient } from '../../scripts/prisma-generate.ts'
import type { CrashPoint } from '../../examples/crash.ts'
import { describePostgres } from '../support/postgres.ts'
import { Example } from './support/example.ts'

const TIMEOUT_MS = 180_000

/** The same payment on four frameworks and three clients of PostgreSQL. */
for (const path of ['01-express-postgres', '02-fastify-prisma', '03-hono-drizzle', '07-nest-prisma']) {
  describePostgres(`example ${path}`, (database) => {
    let pool: pg.Pool
    beforeAll(async () => {
      pool = new pg.Pool({ connectionString: database.url, max: 2 })
      if (path.includes('prisma')) await generatePrismaClient()
    }, TIMEOUT_MS)
    afterAll(() => pool?.end())

    const start = (crashAt?: CrashPoint): Promise<Example> =>
      Example.start(path, { DATABASE_URL: database.url }, crashAt)
    const charge = (example: Example, key: string, amount = 500): Promise<Response | undefined> => {
      const headers = {
        'content-type': 'application/json',
        'idempotency-key': key,
        authorization: 'Bearer token-of-ann',
      }
      return example.post('/charges', JSON.stringify({ amount }), headers)
    }
    const charges = async (): Promise<number> => {
      const { rows } = await pool.query<{ count: string }>('select count(*) from charges')
      return Number(rows[0]?.count)
    }

    it(
      'killed before its commit, killed after its commit, retried: one charge',
      async () => {
        const before = await start('before-commit')
        expect(await charge(before, 'a')).toBeUndefined()
        expect(await before.death()).toBe('SIGKILL')
        expect(await charges()).toBe(0)

        const after = await start('after-commit')
        expect(await charge(after, 'a')).toBeUndefined()
        expect(await after.death()).toBe('SIGKILL')
        expect(await charges()).toBe(1)

        const example = await start()
        try {
          const retried = await charge(example, 'a')
          expect(retried?.status).toBe(201)
          expect(retried?.headers.get('idempotent-replayed')).toBe('true')
          expect(await retried?.json()).toMatchObject({ customer: 'ann', amount: 500 })
          expect(await charges()).toBe(1)

          // And without any crash: the first runs, the second is replayed, another amount is refused.
          const [first, second] = [await charge(example, 'b'), await charge(example, 'b')]
          expect([first?.status, second?.status]).toEqual([201, 201])
          expect(first?.headers.get('idempotent-replayed')).toBeNull()
          expect(await second?.text()).toBe(await first?.text())
          expect((await charge(example, 'b', 900))?.status).toBe(422)
          expect(await charges()).toBe(2)
        } finally {
          await example.stop()
        }
      },
      TIMEOUT_MS,
    )
  })
}
