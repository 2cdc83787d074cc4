/** One charge in a separate process, which the test kills: `main.ts <naive|once> <file> <provider> <key> <amount>`. */
import { openNaive, openOnce, type Pay } from './charges.ts'

const [how = 'once', file = 'charges.db', provider = '', key = '', amount = '0'] = process.argv.slice(2)

const pay: Pay = async (cents, idempotencyKey) => {
  const headers = idempotencyKey === undefined ? undefined : { 'idempotency-key': idempotencyKey }
  const response = await fetch(provider, { method: 'POST', body: String(cents), ...(headers && { headers }) })
  return (await response.json()) as { id: string }
}

const charge = await (how === 'naive' ? openNaive : openOnce)(file, pay)
console.log(JSON.stringify(await charge(key, Number(amount))))
process.exit(0)
