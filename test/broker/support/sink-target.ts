import type { SinkTarget } from '../../../src/testing/sink-contract/index.ts'
import { brokerNamed } from './broker.ts'
import type { Halting } from './describe-broker.ts'

/** A sink at a place of its own on this server, for the contract. */
export async function sinkTarget(name: string, server: Halting): Promise<SinkTarget> {
  const broker = await brokerNamed(name)
  const place = `contract_${Math.random().toString(36).slice(2)}`
  const there = await broker.open({ url: server.url, place, make: true })
  return {
    sink: there.sink(),
    received: () => there.received(),
    outage: {
      begin: () => server.halt(),
      async end() {
        await server.resume()
        await there.back()
      },
    },
    ...(there.tooLarge === undefined ? {} : { tooLarge: there.tooLarge }),
    async close() {
      await there.remove()
      await there.close()
    },
  }
}
