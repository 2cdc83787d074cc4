/**
 * A payment on Hono and Drizzle: the operation is `c.var.once`, and its `tx` is your own Drizzle transaction.
 *
 * DATABASE_URL=postgres://localhost/shop PORT=3000 npx tsx examples/03-hono-drizzle/main.ts
 */
import { serve } from '@hono/node-server'
import { sql } from 'drizzle-orm'
import { drizzle } from 'drizzle-orm/node-postgres'
import { integer, pgTable, serial, text } from 'drizzle-orm/pg-core'
import { Hono } from 'hono'
import { effectivelyOnce } from 'effectively-once'
import { drizzleStore } from 'effectively-once/drizzle'
import { idempotency } from 'effectively-once/hono'
import { customerOf } from '../authentication.ts'
import { crashPoint, observe } from '../crash.ts'

const charges = pgTable('charges', {
  id: serial().primaryKey(),
  customer: text().notNull(),
  amount: integer().notNull(),
})

const db = drizzle(process.env['DATABASE_URL'] ?? '', { schema: { charges } })
await db.execute(
  sql`create table if not exists charges (id serial primary key, customer text not null, amount int not null)`,
)

const once = effectivelyOnce({ namespace: 'payments', store: drizzleStore(db), observe })
await once.migrate()
const idempotent = idempotency(once, { scope: (c) => customerOf(c.req.header('authorization')) })

const app = new Hono()
app.post('/charges', idempotent(), async (c) => {
  const { tx, scope } = c.var.once
  const { amount } = await c.req.json<{ amount: number }>()
  const [charge] = await tx.insert(charges).values({ customer: scope, amount }).returning()
  crashPoint('before-commit')
  return c.json(charge ?? {}, 201) // leaves after the commit
})
serve({ fetch: app.fetch, port: Number(process.env['PORT'] ?? 3000), hostname: '127.0.0.1' })
