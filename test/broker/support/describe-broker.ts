import { afterAll, beforeAll, describe, inject } from 'vitest'
import { startAlone, type RunningServer, type ServerName } from '../../../scripts/servers/index.ts'
import type { LateServerName } from '../../support/late-servers.ts'

/** Those that run already; the others are asked for with `lateServer`. */
type EarlyServerName = Exclude<ServerName, LateServerName>

/**
 * A `describe` that is skipped, by name, when one of its servers is missing.
 *
 * @example
 * describeServers('the sink contract, nats', ['nats'], ({ nats }) => it('…', () => connect(nats)))
 */
export function describeServers<Name extends EarlyServerName>(
  name: string,
  needed: readonly Name[],
  define: (urls: { readonly [server in Name]: string }) => void,
): void {
  const servers = inject('servers')
  const missing = needed.filter((server) => 'missing' in servers[server])
  const title = missing.length > 0 ? `${name} (no ${missing.join(', ')})` : name
  const urls = Object.fromEntries(
    needed.map((server) => {
      const found = servers[server]
      return [server, 'url' in found ? found.url : '']
    }),
  ) as { [server in Name]: string }
  describe.skipIf(missing.length > 0)(title, () => {
    define(urls)
  })
}

/** The same with a server for this `describe` alone, which may be halted and resumed. */
export function describeAlone(
  name: string,
  server: EarlyServerName,
  define: (own: { readonly server: Halting }) => void,
): void {
  const shared = inject('servers')[server]
  // Where it is somebody else's server, or a way that cannot halt, there is nothing to take away.
  const missing = 'missing' in shared
  describe.skipIf(missing)(missing ? `${name} (no ${server})` : name, () => {
    let running: Halting | undefined
    beforeAll(async () => {
      const started = await startAlone(server)
      if ('missing' in started) throw new Error(`no ${server} of its own: ${started.missing}`)
      if (!started.halt || !started.resume) throw new Error(`this ${server} cannot be halted`)
      running = started as Halting
    })
    afterAll(() => running?.stop())
    define({
      get server() {
        if (!running) throw new Error('the server exists only inside hooks and tests')
        return running
      },
    })
  })
}

export type Halting = RunningServer & { halt(): Promise<void>; resume(): Promise<void> }
