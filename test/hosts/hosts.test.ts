import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openWorld, type World } from '../http/world.ts'
import { h3, h3Before, type Host, nextHost, nextJs, reactRouter, smallHosts, svelteKit } from './hosts.ts'

const small = await smallHosts()
const next = await nextHost()
const HOSTS = {
  h3: [small, h3],
  'h3 1': [small, h3Before],
  'React Router': [small, reactRouter],
  SvelteKit: [small, svelteKit],
  'Next.js': [next, nextJs],
} as const

for (const [name, [installed, start]] of Object.entries(HOSTS)) {
  const missing = 'missing' in installed
  describe.skipIf(missing)(missing ? `${name} (${installed.missing})` : name, () => {
    let world: World
    let host: Host
    beforeAll(async () => {
      if (missing) return
      world = await openWorld('sqlite')
      host = await start(installed.folder, world)
    }, 400_000)
    afterAll(async () => {
      await host?.close()
      await world?.close()
    })

    const send = async (kind: string, headers: Record<string, string>) => {
      const response = await host.send(
        new Request(`http://127.0.0.1/x/${kind}`, {
          method: 'POST',
          headers: { accept: 'application/json', 'content-type': 'application/json', ...headers },
          body: '{}',
        }),
      )
      return { response, told: await toldOf(response) }
    }

    it.each([
      ['created', 1, 'true'],
      ['redirect', 1, 'true'],
      ...(name === 'Next.js' ? ([['permanent', 1, 'true']] as const) : []),
      ['refuse', 0, 'true'],
      ['fail', 0, null],
      ['mistake', 0, null],
    ] as const)('%s: as without us, and then from the record', async (kind, effects, replayed) => {
      const plain = await send(kind, { 'x-plain': 'yes' })
      const key = randomUUID()
      const first = await send(kind, { 'idempotency-key': key })
      expect(first.told).toEqual(plain.told)
      expect(first.response.headers.get('idempotent-replayed')).toBe(null)
      const second = await send(kind, { 'idempotency-key': key })
      expect(second.told).toEqual(plain.told)
      expect(second.response.headers.get('idempotent-replayed')).toBe(replayed)
      expect(await host.effects(key)).toBe(effects)
    })
  })
}

async function toldOf(response: Response): Promise<readonly unknown[]> {
  const type = (response.headers.get('content-type') ?? '').split(';')[0]
  return [response.status, response.headers.get('location'), type, await response.text()]
}
