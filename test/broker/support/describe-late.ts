import { describe, inject } from 'vitest'
import { lateServer, type LateServerName } from '../../support/late-servers.ts'

/**
 * A `describe` on a server that is started when a test file asks for it. Without it, or without PostgreSQL where that is
 * needed too, the tests are reported as skipped.
 */
export async function describeLate(
  name: string,
  needed: { readonly server: LateServerName; readonly postgres?: boolean },
  define: (url: string) => void,
): Promise<void> {
  const server = await lateServer(needed.server)
  const missing = [
    ...('missing' in server ? [needed.server] : []),
    ...(needed.postgres && 'missing' in inject('servers').postgres ? ['postgres'] : []),
  ]
  describe.skipIf(missing.length > 0)(missing.length > 0 ? `${name} (no ${missing.join(', ')})` : name, () => {
    define('url' in server ? server.url : '')
  })
}
