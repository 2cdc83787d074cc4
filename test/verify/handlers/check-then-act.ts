/** Example 06, on a provider that the test runs. `HOW` chooses the first version or the fixed one. */
import { effectivelyOnce } from '../../../src/index.ts'
import { sqliteStore } from '../../../src/entry/sqlite.ts'
import { openNaive, openOnce, type Pay } from '../../../examples/06-check-then-act/charges.ts'

const { FILE: file = '', PROVIDER: provider = '', HOW: how = 'naive' } = process.env

const pay: Pay = async (cents, key) => {
  const headers = key === undefined ? undefined : { 'idempotency-key': key }
  const response = await fetch(`${provider}/payments`, {
    method: 'POST',
    body: String(cents),
    ...(headers && { headers }),
  })
  return (await response.json()) as { id: string }
}

const charge = await (how === 'naive' ? openNaive : openOnce)(file, pay)
const own = sqliteStore({ file })
export const once = effectivelyOnce({ namespace: 'checks', store: own, guard: 'off', sweep: false })

export async function reset(): Promise<void> {
  await fetch(`${provider}/reset`, { method: 'POST' })
  if (how === 'naive') await own.transaction((tx) => tx.query('delete from seen'))
}

interface Client {
  retry<T>(call: (key: string) => Promise<T>): Promise<T>
}

/** With SINGLE there is no double click: the crash alone has to be found. */
export const act = (client: Client): Promise<unknown> =>
  process.env['SINGLE'] === undefined ? client.retry((key) => charge(key, 500)) : charge('order-1', 500)

export async function check(): Promise<void> {
  const taken = Number(await (await fetch(`${provider}/taken`)).text())
  if (taken !== 1) throw new Error(`the customer paid ${taken} times`)
}
