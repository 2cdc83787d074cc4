/** `racer.ts <kind> <path> <number>`: competes with other processes for the versions of a few names. */
import Libsql from 'libsql'
import { fileStorage, sqliteStorage } from '../../../src/entry/client-node.ts'

const [, , kind, path = '', number] = process.argv
const storage = kind === 'file' ? fileStorage({ folder: path }) : sqliteStorage(new Libsql(path))
const NAMES = 3
const ROUNDS = 60

for (let round = 0; round < ROUNDS; round++) {
  const name = `name ${round % NAMES}`
  const mine = `${name} by ${number} in ${round}`
  const text = await storage.add(name, mine)
  // Every text is won by one process: the one that added it, and the one that ended it.
  if (text === mine) console.log(`added ${text}`)
  if (await storage.swap(name, text, round % 2 === 0 ? null : `${mine} again`)) console.log(`ended ${text}`)
}
