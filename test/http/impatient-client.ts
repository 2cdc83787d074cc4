import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from '../../src/testing/http-contract/client.ts'
import type { Started } from './world.ts'

const PATIENCE_MS = 3_000

/** A client that does not wait long: a request without an answer is an error, and no test that hangs. */
export function impatientClient({ base }: Started): Client {
  const client = new Client(base)
  const send = client.send.bind(client)
  const late = async (): Promise<never> => {
    await sleep(PATIENCE_MS)
    throw new Error('no answer')
  }
  client.send = (sent) => Promise.race([send(sent), late()])
  return client
}
