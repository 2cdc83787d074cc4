import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

/** One compensation, as the provider made it. */
export interface Effect {
  readonly kind: string
  readonly key: string
  readonly id: number | null
}

/** A provider that honours keys and outlives the processes that call it. Some of its answers are lost. */
export class CompensatingProvider {
  /** The number of effects by what they were made for. More than one is a compensation made twice. */
  readonly effects = new Map<string, number>()
  readonly #byKey = new Map<string, string>()
  readonly #server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { kind, key, id } = JSON.parse(Buffer.concat(chunks).toString()) as Effect
      this.#make(String(request.headers['idempotency-key']), nameOf({ kind, key, id }))
      this.calls++
      this.onCall()
      if (this.#isLost()) response.destroy()
      else response.end('{"done":true}')
    })
  })
  readonly #isLost: () => boolean
  calls = 0
  /** Called after each effect, before the answer. */
  onCall: () => void = () => {}

  constructor(isLost: () => boolean) {
    this.#isLost = isLost
  }

  async start(): Promise<string> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve))
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  #make(idempotencyKey: string, name: string): void {
    if (this.#byKey.has(idempotencyKey)) return
    this.#byKey.set(idempotencyKey, name)
    this.effects.set(name, (this.effects.get(name) ?? 0) + 1)
  }
}

export function nameOf({ kind, key, id }: Effect): string {
  return `${kind} ${key} ${id ?? '-'}`
}
