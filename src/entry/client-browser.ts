export { indexedDbStorage } from '../client/indexed-db.ts'
export { webStorage, type WebStorageLike } from '../client/web-storage.ts'
