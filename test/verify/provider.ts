import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'

/** A payment provider in the process of the test. It survives the processes that are killed, and honours keys. */
export class Provider {
  readonly #payments = new Map<string, string>()
  readonly #server: Server = createServer((req, res) => {
    if (req.url === '/reset') this.#payments.clear()
    if (req.url === '/payments')
      res.write(JSON.stringify({ id: this.#pay(req.headers['idempotency-key']?.toString()) }))
    if (req.url === '/taken') res.write(String(this.#payments.size))
    res.end()
  })

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }

  #pay(key = `no key ${this.#payments.size}`): string {
    const id = this.#payments.get(key) ?? `payment ${this.#payments.size + 1}`
    this.#payments.set(key, id)
    return id
  }
}
