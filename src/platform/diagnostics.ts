import { subscribe, unsubscribe } from 'node:diagnostics_channel'

/**
 * Listens on a diagnostics channel of Node. Returns a function that stops. The listener runs in the publisher's
 * context.
 */
export function onDiagnostics(channel: string, listen: (message: unknown) => void): () => void {
  const listener = (message: unknown): void => listen(message)
  subscribe(channel, listener)
  return () => {
    unsubscribe(channel, listener)
  }
}
