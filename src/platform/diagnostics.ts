import { subscribe, unsubscribe } from 'node:diagnostics_channel'

/** Listens on a channel of Node's own diagnostics; returns how to stop. Whoever publishes calls back in its own context. */
export function onDiagnostics(channel: string, listen: (message: unknown) => void): () => void {
  const listener = (message: unknown): void => listen(message)
  subscribe(channel, listener)
  return () => {
    unsubscribe(channel, listener)
  }
}
