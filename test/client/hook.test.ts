import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { findChromium } from '../../scripts/servers/chromium.ts'
import { launch } from '../playground/world.ts'
import { shopFront } from './browser/shop-front.ts'

const TIMEOUT_MS = 120_000
const found = await findChromium()
if ('missing' in found) console.warn(`chromium is missing, its tests are skipped: ${found.missing}`)

/** What test/client/browser/orders.mjs offers. */
interface Orders {
  readonly renders: string[]
  choose(order: number): void
  pay(): Promise<void>
  sent(): number
  answer(call: number, status?: number): void
}

describe.skipIf('missing' in found)('useIdempotentCall', () => {
  let browser: Browser
  let pages: Record<string, string>

  beforeAll(async () => {
    ;[pages, browser] = await Promise.all([shopFront('orders'), launch('executable' in found ? found.executable : '')])
  }, TIMEOUT_MS)
  afterAll(() => browser?.close(), TIMEOUT_MS)

  async function open(): Promise<Page> {
    const page = await browser.newPage()
    await page.route('**/*', (route) => {
      const path = new URL(route.request().url()).pathname
      return route.fulfill({ body: pages[path] ?? '', contentType: path === '/' ? 'text/html' : 'text/javascript' })
    })
    await page.goto('http://localhost/')
    await shows(page, '1 none -')
    return page
  }

  const inPage = <R>(page: Page, work: (orders: Orders) => R): Promise<Awaited<R>> =>
    page.evaluate(`(${String(work)})(globalThis.orders)`)

  function shows(page: Page, text: string): Promise<void> {
    return expect.poll(() => page.textContent('#shown'), { timeout: 10_000 }).toBe(text)
  }

  it(
    'whose name changes shows the answer of the order that was paid, and of no other',
    async () => {
      const page = await open()
      await inPage(page, (orders) => void (globalThis.paying = orders.pay()))
      await shows(page, '1 pending -')
      await expect.poll(() => inPage(page, (orders) => orders.sent())).toBe(1)
      await inPage(page, (orders) => orders.choose(2))
      await shows(page, '2 none -')
      await inPage(page, async (orders) => {
        orders.answer(0)
        await globalThis.paying
      })
      // The first order has its answer. The second one can be paid.
      await inPage(page, (orders) => void (globalThis.paying = orders.pay()))
      await shows(page, '2 pending -')
      await expect.poll(() => inPage(page, (orders) => orders.sent())).toBe(2)
      await inPage(page, async (orders) => {
        orders.answer(1)
        await globalThis.paying
      })
      await shows(page, '2 done 201')
      await inPage(page, (orders) => orders.choose(1))
      await shows(page, '1 done -')
      const renders = await inPage(page, (orders) => orders.renders)
      const changed = renders.filter((shown, at) => at > 0 && shown[0] !== renders[at - 1]?.[0])
      expect(changed).toEqual(['2 loading -', '1 loading -'])
      expect(renders.filter((shown) => shown.includes('201'))).toEqual(['2 done 201'])
      await page.close()
    },
    TIMEOUT_MS,
  )

  it(
    'joins a second press to the first one, so a declined payment is not tried again',
    async () => {
      const page = await open()
      await inPage(page, (orders) => void (globalThis.paying = Promise.all([orders.pay(), orders.pay()])))
      await expect.poll(() => inPage(page, (orders) => orders.sent())).toBe(1)
      await inPage(page, async (orders) => {
        orders.answer(0, 402)
        // A second attempt, which must not be, would wait for its answer here.
        await Promise.race([globalThis.paying, new Promise((resolve) => setTimeout(resolve, 1_000))])
      })
      await shows(page, '1 none 402')
      expect(await inPage(page, (orders) => orders.sent())).toBe(1)
      // A press after the answer is a new attempt.
      await inPage(page, (orders) => void (globalThis.paying = orders.pay()))
      await expect.poll(() => inPage(page, (orders) => orders.sent())).toBe(2)
      await page.close()
    },
    TIMEOUT_MS,
  )
})

declare global {
  // The page's own variable.
  var paying: Promise<unknown>
}
