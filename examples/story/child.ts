/** A process of the shop that is killed at its COMMIT: `child.ts <file> <key> <amount> <during|after>`. */
import { writeSync } from 'node:fs'
import { charge, openShopInterrupted } from './shop.ts'

const [, , file = '', key = '', amount = '0', moment = 'during'] = process.argv
const STDOUT = 1
const PATIENCE_MS = 20_000

/** Reports the point it has reached, and waits there until the parent kills it. */
function standStill(where: string): never {
  writeSync(STDOUT, `${where}\n`)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, PATIENCE_MS)
  process.exit(3) // nobody came: not the story that was to be told
}

const shop = openShopInterrupted(file, (commit) => {
  if (moment === 'during') standStill('at COMMIT')
  commit()
  standStill('after COMMIT')
})
const { got } = await charge(shop, key, Number(amount))
writeSync(STDOUT, `answered ${JSON.stringify(got)}\n`)
