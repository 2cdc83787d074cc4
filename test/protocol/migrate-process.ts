import pg from 'pg'
import { pgStore } from '../../src/entry/pg.ts'

const pool = new pg.Pool({ connectionString: process.argv[2], max: 2 })
console.log(JSON.stringify(await pgStore(pool).schema.migrate()))
await pool.end()
