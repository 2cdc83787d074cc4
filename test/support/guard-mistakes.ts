import { readFileSync } from 'node:fs'
import http from 'node:http'
import { drizzle } from 'drizzle-orm/node-postgres'
import { pgTable, integer } from 'drizzle-orm/pg-core'
import { Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'

// What a beginner writes into a handler: in a file of its own, because the guard names the file that made the call.

/** How the guard names the line of this file that has this text. */
export function placeOf(text: string): string {
  const path = 'test/support/guard-mistakes.ts'
  const lines = readFileSync(path, 'utf8').split('\n')
  return `${path}:${lines.findIndex((line) => line.includes(text)) + 1}`
}

const charges = pgTable('charges', { id: integer().primaryKey() })

export async function queryThePool(pool: pg.Pool, id: number): Promise<void> {
  await pool.query('insert into charges (id) values ($1)', [id])
}

export async function takeAConnection(pool: pg.Pool, id: number): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('insert into charges (id) values ($1)', [id])
  } finally {
    client.release()
  }
}

export async function insertWithDrizzle(pool: pg.Pool, id: number): Promise<void> {
  await drizzle(pool).insert(charges).values({ id })
}

export async function insertWithKysely(pool: pg.Pool, id: number): Promise<void> {
  const db = new Kysely<{ charges: { id: number } }>({ dialect: new PostgresDialect({ pool }) })
  await db.insertInto('charges').values({ id }).execute()
}

export async function fetchFrom(url: string): Promise<void> {
  await (await fetch(url)).text()
}

export function requestFrom(url: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = http.request(url, (response) => response.resume().on('end', resolve))
    request.on('error', reject).end()
  })
}
