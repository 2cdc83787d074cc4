import { createServer } from 'node:http'
import type { Browser, BrowserContext, Page } from 'playwright-core'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { findChromium } from '../../scripts/servers/chromium.ts'
import { listen, type Started } from '../http/world.ts'
import { launch } from '../playground/world.ts'
import { shopFront } from './browser/shop-front.ts'
import { STORAGE_CONTRACT } from './support/storage-contract.ts'

const SHARED = ['IndexedDB', 'localStorage', 'localStorage with a prefix']
/** Each tab has a sessionStorage of its own. */
const KINDS = [...SHARED, 'sessionStorage']

/** What the page of `browser/storages.mjs` offers. */
interface Storages {
  contract(kind: string): Promise<string[]>
  race(kind: string, number: number): Promise<string[]>
  add(kind: string, name: string, text: string): Promise<string>
  list(kind: string): Promise<string[]>
  clear(): Promise<void>
}

const found = await findChromium()
const missing = 'missing' in found
if (missing) console.warn(`chromium is missing, its tests are skipped: ${found.missing}`)

let server: Started
let browser: Browser
let context: BrowserContext
beforeAll(async () => {
  if (missing) return
  const pages = await shopFront('storages')
  server = await listen(
    createServer(({ url = '' }, res) => {
      res.setHeader('content-type', url.endsWith('.js') ? 'text/javascript' : 'text/html').end(pages[url])
    }),
  )
  browser = await launch(found.executable)
})
afterAll(async () => {
  await browser?.close()
  await server?.close()
})
beforeEach(async () => {
  context = await browser.newContext()
})
afterEach(() => context.close())

async function tab(): Promise<Page> {
  const page = await context.newPage()
  await page.goto(server.base)
  await page.waitForFunction(() => Reflect.has(globalThis, 'storages'))
  return page
}

function call<Name extends keyof Storages>(page: Page, name: Name, ...args: Parameters<Storages[Name]>) {
  return page.evaluate(
    ({ name: method, args: given }) => {
      const storages = Reflect.get(globalThis, 'storages') as Record<string, (...values: unknown[]) => unknown>
      return storages[method]?.(...given)
    },
    { name, args },
  ) as ReturnType<Storages[Name]>
}

it.skipIf(missing)('goes on after another tab has emptied localStorage', async () => {
  const [one, other] = [await tab(), await tab()]
  await call(one, 'add', 'localStorage', 'pay order 7', 'old')
  await call(other, 'clear')
  expect(await call(other, 'add', 'localStorage', 'pay order 7', 'new')).toBe('new')
  expect(await call(one, 'list', 'localStorage')).toEqual(['new'])
})

describe.skipIf(missing).each(KINDS)('%s in Chromium', (kind) => {
  it('fulfils the contract of storages', async () => {
    expect(await call(await tab(), 'contract', kind)).toEqual(Object.keys(STORAGE_CONTRACT))
  })

  it('keeps its calls over a reload', async () => {
    const page = await tab()
    expect(await call(page, 'add', kind, 'pay order 7', 'text')).toBe('text')
    await page.reload()
    await page.waitForFunction(() => Reflect.has(globalThis, 'storages'))
    expect(await call(page, 'list', kind)).toEqual(['text'])
  })
})

it.skipIf(missing).each(SHARED)('%s lets one of four tabs add, and one change each version', async (kind) => {
  const tabs = await Promise.all([0, 1, 2, 3].map(tab))
  const won = (await Promise.all(tabs.map((page, number) => call(page, 'race', kind, number)))).flat()
  expect(won.length).toBeGreaterThan(50)
  expect(new Set(won).size).toBe(won.length)
})
