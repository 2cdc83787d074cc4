import { onceError } from '../../../errors.ts'
import type { ListenParams } from './driver.ts'
import type { PgPool } from './client.ts'

/** The additional methods that a listening client needs. */
interface ListeningClient {
  connect(): Promise<unknown>
  end(): Promise<void>
  query(text: string): Promise<unknown>
  on(event: 'notification' | 'end', listener: () => void): unknown
  on(event: 'error', listener: (error: unknown) => void): unknown
  unref?(): void
}

/**
 * LISTEN on a separate connection, because a pool may close its connections at any time. While idle, it does not keep
 * the process alive.
 */
export async function pgListen(
  { Client, options }: PgPool,
  { channel, called, lost }: ListenParams,
): Promise<() => Promise<void>> {
  if (!Client) throw onceError('ONCE_UNSUPPORTED', { detail: 'this pool cannot open a connection to listen on' })
  const client = new Client(options) as unknown as ListeningClient
  let stopped = false
  const end = (error: unknown): void => {
    if (stopped) return
    stopped = true
    void client.end().catch(() => {})
    lost(error)
  }
  client.on('error', end)
  client.on('end', () => end(new Error('the connection that listens was closed')))
  client.on('notification', called)
  try {
    await client.connect()
    await client.query(`listen ${channel}`)
  } catch (error) {
    stopped = true
    void client.end().catch(() => {})
    throw error
  }
  client.unref?.()
  return async () => {
    stopped = true
    await client.end().catch(() => {})
  }
}
