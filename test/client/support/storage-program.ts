/**
 * `storage-program.ts contract <kind> <path>`: prints the cases that passed. `storage-program.ts race <kind> <path>
 * <number>`: prints what this process won.
 */
import { openStorage, type StorageKind } from './open-storage.ts'
import { race } from './race.ts'
import { STORAGE_CONTRACT } from './storage-contract.ts'

const [, , what, kind, path = '', number] = process.argv
const storage = await openStorage(kind as StorageKind, path)
if (what === 'race') {
  console.log((await race(storage, Number(number))).join('\n'))
} else {
  for (const [name, holds] of Object.entries(STORAGE_CONTRACT)) {
    await holds(storage)
    console.log(name)
  }
}
