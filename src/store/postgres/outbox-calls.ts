import type { Calls } from '../outbox.ts'
import type { PgDriver } from './driver/driver.ts'
import { told } from './errors.ts'
import { channelName } from './name.ts'

/** Sends NOTIFY in a separate statement, because in a producer's transaction it would halve the throughput. */
export function postgresCalls<Tx>(driver: PgDriver<Tx>, schema: string): Calls | undefined {
  const { listen } = driver
  if (!listen) return undefined
  const channel = channelName(schema)
  const text = `select pg_notify('${channel.slice(1, -1)}', '') is null as called`
  return {
    async call() {
      await told(schema, () => driver.aside({ name: '', text, values: [] }))
    },
    listen: (params) => listen.call(driver, { ...params, channel }),
  }
}
