import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A provider that honours idempotency keys: however often a derived key comes, it has one effect. */
export interface Provider {
  readonly url: string
  /** How often each derived key came, for an operation. */
  calls(operation: string): ReadonlyMap<string, number>
  close(): Promise<void>
}

export async function openProvider(): Promise<Provider> {
  const all = new Map<string, Map<string, number>>()
  const server = createServer((request, response) => {
    const [, operation = '', key = ''] = (request.url ?? '').split('/').map(decodeURIComponent)
    const calls = all.get(operation) ?? new Map<string, number>()
    all.set(operation, calls.set(key, (calls.get(key) ?? 0) + 1))
    response.end(key.slice(0, 8))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    calls: (operation) => all.get(operation) ?? new Map(),
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

export async function pay(provider: string, operation: string, key: string): Promise<string> {
  const response = await fetch(`${provider}/${encodeURIComponent(operation)}/${encodeURIComponent(key)}`)
  return response.text()
}
