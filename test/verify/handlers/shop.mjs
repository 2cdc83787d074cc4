/**
 * Handlers of a shop, on the compiled package in DIST and the database DATABASE. HOW chooses one of them:
 *
 * - `atomic`: the charge is a row in the operation's transaction
 * - `second-transaction`: charges, then stores the order in a transaction of its own
 * - `leased`: pays at PROVIDER in a step, under the step's key
 * - `unkeyed`: the same without the step's key
 * - `hangs`: never decides
 */
const { DIST = '', DATABASE = '', HOW = 'atomic', PROVIDER = '' } = process.env
const { effectivelyOnce } = await import(`${DIST}/index.js`)

async function open() {
  if (DATABASE.startsWith('postgres:')) {
    const { default: pg } = await import('pg')
    const { pgStore } = await import(`${DIST}/entry/pg.js`)
    const pool = new pg.Pool({ connectionString: DATABASE, max: 4 })
    return { store: pgStore(pool), query: (sql, values) => pool.query(sql, values) }
  }
  const { sqliteStore } = await import(`${DIST}/entry/sqlite.js`)
  const store = sqliteStore({ file: DATABASE })
  return { store, query: (sql, values) => store.transaction((tx) => tx.query(sql, values)) }
}

const { store, query } = await open()
export const once = effectivelyOnce({ namespace: 'shop', store, guard: 'off', sweep: false })
await once.migrate()
await query('create table if not exists charges (amount int)')
await query('create table if not exists orders (key text primary key)')

const CHARGE = 'insert into charges (amount) values (500)'

const handlers = {
  atomic: (key) => once.run({ scope: 'a', key, input: 1 }, ({ tx }) => tx.query(CHARGE).then(() => 'charged')),
  async 'second-transaction'(key) {
    const { rows } = await query('select 1 from orders where key = $1', [key])
    if (rows.length > 0) return 'charged'
    await query(CHARGE)
    await query('insert into orders (key) values ($1)', [key])
    return 'charged'
  },
  leased: (key) => leased(key, true),
  unkeyed: (key) => leased(key, false),
  hangs: () => new Promise((resolve) => setTimeout(resolve, 3_600_000)),
}

function leased(key, isKeyed) {
  return once.run({ scope: 'a', key, input: 1, lease: '30s' }, async ({ step, commit }) => {
    const paid = await step('pay', async (own) => {
      const headers = isKeyed ? { 'idempotency-key': own.key } : {}
      return (await fetch(`${PROVIDER}/payments`, { method: 'POST', headers })).json()
    })
    return commit(({ tx }) => tx.query(CHARGE).then(() => paid))
  })
}

export async function reset() {
  await query('delete from charges')
  await query('delete from orders')
  if (PROVIDER !== '') await fetch(`${PROVIDER}/reset`, { method: 'POST' })
}

/** Not a double click: the crash alone has to be found. */
const single = (key) => handlers[HOW](key)

export const act = (client) =>
  process.env['SINGLE'] === undefined ? client.retry(single) : single(`order-${process.env['SINGLE']}`)

export async function check() {
  const { rows } = await query('select amount from charges')
  if (rows.length !== 1) throw new Error(`expected 1 charge, found ${rows.length}`)
  if (PROVIDER === '') return
  const taken = Number(await (await fetch(`${PROVIDER}/taken`)).text())
  if (taken !== 1) throw new Error(`expected 1 payment, found ${taken}`)
}
