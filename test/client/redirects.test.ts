import { createServer } from 'node:http'
import { expect, it } from 'vitest'
import { findChromium } from '../../scripts/servers/chromium.ts'
import type { IdempotentClient } from '../../src/entry/client.ts'
import { listen } from '../http/world.ts'
import { launch } from '../playground/world.ts'
import { shopFront } from './browser/shop-front.ts'

const TIMEOUT_MS = 120_000
const found = await findChromium()
if ('missing' in found) console.warn(`chromium is missing, its tests are skipped: ${found.missing}`)

it.skipIf('missing' in found)(
  'a redirect that Chromium does not follow, and hides, is an answer',
  async () => {
    const pages = await shopFront()
    let moved = 0
    const server = await listen(
      createServer(({ url = '' }, res) => {
        const { pathname } = new URL(url, 'http://localhost')
        if (pathname === '/charges') {
          moved += 1
          res.writeHead(303, { location: '/paid' }).end()
        } else {
          res.writeHead(pathname in pages ? 200 : 404, {
            'content-type': pathname === '/' ? 'text/html' : 'text/javascript',
          })
          res.end(pages[pathname])
        }
      }),
    )
    const browser = await launch('executable' in found ? found.executable : '')
    try {
      const page = await browser.newPage()
      await page.goto(`${server.base}/?server=effectively-once&order=7`)
      await page.waitForFunction(() => Reflect.has(globalThis, 'client'))
      const answered = await page.evaluate(async () => {
        const client = Reflect.get(globalThis, 'client') as IdempotentClient
        const init = { method: 'POST', body: '5', redirect: 'manual' } as const
        const { key, status, type } = await client.fetch('/charges', init, { name: 'pay 7', key: 'k-7' })
        return { key, status, type, state: await client.state('pay 7') }
      })
      expect(answered).toEqual({ key: 'k-7', status: 0, type: 'opaqueredirect', state: 'done' })
      expect(moved).toBe(1)
    } finally {
      await browser.close()
      await server.close()
    }
  },
  TIMEOUT_MS,
)
