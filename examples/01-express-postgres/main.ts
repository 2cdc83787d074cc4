/**
 * A payment on Express and PostgreSQL: the charge, its event and the stored answer commit together.
 *
 * DATABASE_URL=postgres://localhost/shop PORT=3000 npx tsx examples/01-express-postgres/main.ts
 * curl -i localhost:3000/charges -H 'Idempotency-Key: order-1' -H 'X-Customer: ann' --json '{"amount":500}'
 */
import express from 'express'
import pg from 'pg'
import { effectivelyOnce, event } from 'effectively-once'
import { idempotency } from 'effectively-once/express'
import { pgStore } from 'effectively-once/pg'
import { customerOf } from '../authentication.ts'
import { crashPoint, observe } from '../crash.ts'

const pool = new pg.Pool({ connectionString: process.env['DATABASE_URL'] })
await pool.query(
  'create table if not exists charges (id serial primary key, customer text not null, amount int not null)',
)

const events = { 'charge.created': event<{ id: number; customer: string }>(({ customer }) => customer) }
const once = effectivelyOnce({ namespace: 'payments', store: pgStore(pool), events, observe })
await once.migrate()

// The owner of the key is the authenticated caller.
const idempotent = idempotency(once, { scope: (req) => customerOf(req.get('authorization')) })

const app = express().use(express.json())
app.post(
  '/charges',
  idempotent(async (req, res, { tx, publish, scope }) => {
    const insert = 'insert into charges (customer, amount) values ($1, $2) returning id, customer, amount'
    const { rows } = await tx.query<{ id: number; customer: string }>(insert, [scope, req.body.amount])
    const [charge] = rows
    if (charge) await publish('charge.created', charge)
    crashPoint('before-commit')
    res.status(201).json(charge) // leaves after the commit
  }),
)
app.listen(Number(process.env['PORT'] ?? 3000), '127.0.0.1')
