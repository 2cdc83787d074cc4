import { fork } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { programBeside } from '../../scripts/program.ts'

export interface DelayProxy {
  /** The server's address, by way of the proxy. */
  readonly url: string
  close(): Promise<void>
}

/** A network between us and the server: a process of its own, so that its waiting does not hold up ours. */
export async function startDelayProxy(serverUrl: string, delayMs: number): Promise<DelayProxy> {
  const url = new URL(serverUrl)
  const { file, execArgv } = programBeside(import.meta.url, 'delay-proxy-process')
  const child = fork(file, [url.hostname, url.port, String(delayMs)], { execArgv: [...execArgv] })
  const [port] = (await Promise.race([
    onceEvent(child, 'message'),
    onceEvent(child, 'exit').then(() => Promise.reject(new Error('the delay proxy did not start'))),
  ])) as [number]
  url.hostname = '127.0.0.1'
  url.port = String(port)
  return {
    url: url.href,
    async close() {
      const ended = onceEvent(child, 'exit')
      child.disconnect()
      await ended
    },
  }
}
