import { effectivelyOnce } from 'effectively-once'
import { sqliteStore } from 'effectively-once/sqlite'
import { crashPoint } from '../crash.ts'

/** Takes the money over the network. `key`, if given, is an idempotency key for the provider. */
export type Pay = (amount: number, key?: string) => Promise<{ id: string }>
export type Charge = (key: string, amount: number) => Promise<{ payment: string }>

/**
 * The usual first version: look for the key, charge, store the key. Two concurrent requests both find no key. A process
 * that dies after the charge has not stored the key. In both cases the customer pays twice.
 */
export async function openNaive(file: string, pay: Pay): Promise<Charge> {
  const store = sqliteStore({ file })
  await store.transaction((tx) => tx.query('create table if not exists seen (key text primary key, payment text)'))
  return async (key, amount) => {
    const select = 'select payment from seen where key = $1'
    const { rows } = await store.transaction((tx) => tx.query<{ payment: string }>(select, [key]))
    if (rows[0]) return { payment: rows[0].payment }
    const { id } = await pay(amount)
    crashPoint('before-commit')
    const insert = 'insert into seen (key, payment) values ($1, $2) on conflict do nothing'
    await store.transaction((tx) => tx.query(insert, [key, id]))
    return { payment: id }
  }
}

/**
 * The fixed version. The claim comes before the charge, and rests on a unique key. The charge is a recorded step under
 * a derived key, which is the same on every attempt. A retry resumes after the step, or repeats the call under the same
 * key.
 */
export async function openOnce(file: string, pay: Pay): Promise<Charge> {
  const store = sqliteStore({ file })
  await store.transaction((tx) => tx.query('create table if not exists charges (payment text, amount int)'))
  const once = effectivelyOnce({ namespace: 'charges', store, inFlight: { waitFor: '10s' } })
  await once.migrate()
  return (key, amount) =>
    once.run({ scope: 'global', key, input: { amount }, lease: '1s' }, async ({ step, commit }) => {
      const { id } = await step('pay', async (own) => {
        const paid = await pay(amount, own.key)
        crashPoint('before-commit')
        return paid
      })
      return commit(async ({ tx }) => {
        await tx.query('insert into charges (payment, amount) values ($1, $2)', [id, amount])
        return { payment: id }
      })
    })
}
