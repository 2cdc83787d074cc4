import { PrismaPg } from '@prisma/adapter-pg'
import pg from 'pg'
import { beforeAll, describe, expect, expectTypeOf, it } from 'vitest'
import { generatePrismaClient } from '../../../scripts/prisma-generate.ts'
import { describePostgres } from '../../../test/support/postgres.ts'
import type { Prisma, PrismaClient } from '../../../test/support/prisma/generated/client.ts'
import { effectivelyOnce } from '../../index.ts'
import type { SqlStore } from '../store.ts'
import { driverContract, storeWorks, refusesWrongHandles, type Bench } from '../../../test/support/driver-contract.ts'
import { prismaDriver, prismaStore } from './prisma.ts'

type Tx = Prisma.TransactionClient

async function connect(url: string): Promise<PrismaClient> {
  await generatePrismaClient()
  const { PrismaClient } = await import('../../../test/support/prisma/generated/client.ts')
  return new PrismaClient({ adapter: new PrismaPg({ connectionString: url, max: 4 }), log: [] })
}

describePostgres('Prisma', (database) => {
  const make = async (): Promise<Bench<Tx>> => {
    const prisma = await connect(database.url)
    const admin = new pg.Client({ connectionString: database.url })
    await admin.connect()
    return {
      driver: prismaDriver(prisma, { dialect: 'postgres' }),
      insert: (tx, id) => tx.effect.create({ data: { id } }),
      later(tx, id) {
        const promise =
          id % 2 === 0 ? tx.effect.create({ data: { id } }) : tx.$executeRaw`insert into effect (id) values (${id})`
        return () => promise.then((value) => value)
      },
      nested: (tx, work) => tx.$transaction(work),
      raw: (tx, text) => tx.$executeRawUnsafe(text),
      own: (work) => prisma.$transaction(work),
      root: prisma,
      admin: async (text) => (await admin.query<Record<string, unknown>>(text)).rows,
      async close() {
        await prisma.$disconnect()
        await admin.end()
      },
    }
  }
  driverContract(make, { server: true, echoes: 1 })
  storeWorks(make)

  describe('its own ways', () => {
    let prisma: PrismaClient
    beforeAll(async () => {
      prisma = await connect(database.url)
      return () => prisma.$disconnect()
    })

    it('refuses a list, which Prisma would commit by itself', async () => {
      const { connection } = await prismaDriver(prisma, { dialect: 'postgres' }).begin(ONE)
      const { tx } = connection.revocable()
      const list = [tx.effect.create({ data: { id: 900 } })]
      await expect(tx.$transaction(list)).rejects.toMatchObject({ code: 'ONCE_TX_TAKEN' })
      await connection.rollback()
      expect(await prisma.effect.count({ where: { id: 900 } })).toBe(0)
    })

    it('refuses the end of the transaction in every form of raw SQL', async () => {
      const { connection } = await prismaDriver(prisma, { dialect: 'postgres' }).begin(ONE)
      const { tx } = connection.revocable()
      for (const attempt of [tx.$executeRaw`commit`, tx.$queryRaw`rollback`, tx.$queryRawUnsafe('abort')]) {
        await expect(attempt).rejects.toMatchObject({ code: 'ONCE_TX_TAKEN' })
      }
      await connection.rollback()
    })

    it('waits for what was not awaited before it commits', async () => {
      await prisma.effect.deleteMany()
      const { connection } = await prismaDriver(slowly(prisma), { dialect: 'postgres' }).begin(ONE)
      const { tx, revoke } = connection.revocable()
      const stray = tx.effect.create({ data: { id: 901 } }).then(() => 'written')
      revoke()
      expect(await connection.commit()).toBe('committed')
      expect(await stray).toBe('written')
      expect(await prisma.effect.count({ where: { id: 901 } })).toBe(1)
    })

    it('undoes with a nested operation what that did not await', async () => {
      await prisma.effect.deleteMany()
      const store = prismaStore(slowly(prisma), { dialect: 'postgres' })
      await store.schema.migrate()
      const once = effectivelyOnce({ namespace: 'prisma', store, guard: 'off', sweep: false })
      const nested = (key: string, id: number, beside: () => Promise<unknown>): Promise<unknown> =>
        once.run({ scope: 'u', key, input: 1 }, async ({ tx }) => {
          await Promise.all([tx.effect.create({ data: { id } }), beside()])
        })
      await once.run({ scope: 'u', key: 'outer', input: 1 }, async () => {
        const broken = nested('fails', 903, () => Promise.reject(new Error('beside it')))
        await expect(broken).rejects.toThrow('beside it')
        await nested('works', 904, async () => {})
      })
      expect((await prisma.effect.findMany()).map(({ id }) => id)).toEqual([904])
    })

    it('outlives the default timeout of Prisma', { timeout: 15_000 }, async () => {
      const { connection } = await prismaDriver(prisma, { dialect: 'postgres' }).begin(ONE)
      await new Promise((resolve) => setTimeout(resolve, 5_500))
      expect(await connection.commit()).toBe('committed')
    })

    it('passes extensions through', async () => {
      const extended = prisma.$extends({
        model: { effect: { hello: (name: string) => `hello ${name}` } },
        result: { effect: { twice: { needs: { id: true }, compute: ({ id }) => id * 2 } } },
      })
      const store = prismaStore(extended, { dialect: 'postgres' })
      type ExtendedTx = Parameters<Parameters<typeof extended.$transaction>[0]>[0]
      expectTypeOf(store).toEqualTypeOf<SqlStore<ExtendedTx>>()
      const { connection } = await prismaDriver(extended, { dialect: 'postgres' }).begin(ONE)
      const { tx } = connection.revocable()
      expect(tx.effect.hello('you')).toBe('hello you')
      expect((await tx.effect.create({ data: { id: 902 } })).twice).toBe(1804)
      await connection.rollback()
    })
  })
})

describe('prismaStore', () => {
  refusesWrongHandles((prisma) => prismaDriver(prisma, { dialect: 'postgres' }), 'needs a PrismaClient')

  it('knows one dialect', () => {
    for (const options of [undefined, {}, { dialect: 'mysql' }]) {
      expect(() => prismaDriver({} as never, options as never)).toThrow(
        expect.objectContaining({ code: 'ONCE_OPTION_INVALID' }),
      )
    }
  })

  it('infers the transaction', () => {
    const infer = (prisma: PrismaClient) => prismaStore(prisma, { dialect: 'postgres' })
    expectTypeOf(infer).returns.toEqualTypeOf<SqlStore<Prisma.TransactionClient>>()
  })
})

const ONE = { name: '', text: 'select 1 as one', values: [] }

/** The same client, whose `create` takes its time before the statement is sent. */
function slowly(prisma: PrismaClient) {
  return prisma.$extends({
    query: {
      effect: {
        async create({ args, query }) {
          await new Promise((resolve) => setTimeout(resolve, 100))
          return query(args)
        },
      },
    },
  })
}
