// A page without a shop: the contract and the race of the storages that only browsers have.
import { indexedDbStorage, webStorage } from '../../../src/entry/client-browser.ts'
import { race } from '../support/race.ts'
import { STORAGE_CONTRACT } from '../support/storage-contract.ts'

const OPENS = {
  IndexedDB: () => indexedDbStorage(),
  localStorage: () => webStorage(localStorage),
  'localStorage with a prefix': () => webStorage(localStorage, 'version of calls 7 '),
  sessionStorage: () => webStorage(sessionStorage),
}

globalThis.storages = {
  async contract(kind) {
    const storage = OPENS[kind]()
    for (const holds of Object.values(STORAGE_CONTRACT)) await holds(storage)
    return Object.keys(STORAGE_CONTRACT)
  },
  race: (kind, number) => race(OPENS[kind](), number),
  add: (kind, name, text) => OPENS[kind]().add(name, text),
  clear: async () => localStorage.clear(),
  list: (kind) => OPENS[kind]().list(),
}
