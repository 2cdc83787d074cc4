import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pass } from 'node:timers/promises'
import type { BrowserContext, Page } from 'playwright-core'
import { launch } from '../../playground/world.ts'
import { Dice } from '../../programs/dice.ts'
import { LossyProxy } from '../chaos/proxy.ts'
import { shopFront } from './shop-front.ts'
import { ourShop, stripeShop } from './shops.ts'

export interface Payments {
  readonly payments: number
  readonly server: 'effectively-once' | 'stripe'
  /** How often the server is killed. The Stripe-like one cannot be killed. */
  readonly kills: number
  readonly seed: number
  readonly chromium: string
  readonly atOnce: number
}

const DISTURBANCES = ['reload', 'closed tab', 'killed tab'] as const
/** Also pressed in a second tab. */
const SECOND_TAB_SHARE = 0.2
/** The longest time from the press to the disturbance. A payment takes about as long. */
const MOMENT_MS = 250
/** The share of the payments that are not disturbed before they have begun. */
const BEGUN_SHARE = 0.7
/** The least share of the disturbances that must hit an open payment. */
const MIDWAY_SHARE = 0.2
const PAID_MS = 30_000
const LOOK_MS = 20
/** The server is killed so soon after a request has arrived. */
const KILL_MS_MAX = 10
/** No kill comes after this share of the payments, so that each one meets a request. */
const KILLED_SHARE = 0.9

export interface PaymentsResult {
  readonly seconds: number
  readonly serverKills: number
  readonly disturbed: Readonly<Record<string, number>>
  /** What the page showed right after it was loaded again. */
  readonly found: Readonly<Record<string, number>>
  readonly pressedAgain: number
  readonly faults: Readonly<Record<string, number>>
  readonly charges: number
  /** Each must be 0. */
  readonly broken: Readonly<Record<string, number>>
}

/** Pays orders in Chromium. Each payment is disturbed at a random moment, and must end with one charge. */
export async function payInBrowser(run: Payments): Promise<PaymentsResult> {
  const folder = await mkdtemp(join(tmpdir(), 'payments-'))
  const dice = new Dice(run.seed)
  const random = (): number => dice.next()
  const pages = await shopFront()
  const shop = run.server === 'stripe' ? await stripeShop() : await ourShop(folder)
  const proxy = new LossyProxy(shop.port, 0.5, random, [
    'dropped request',
    'dropped answer',
    'cut answer',
    'slow answer',
  ])
  const browser = await launch(run.chromium)
  const began = performance.now()
  const disturbed: Record<string, number> = {}
  const found: Record<string, number> = {}
  let pressedAgain = 0
  let unpaid = 0
  let serverKills = 0
  try {
    const url = await proxy.open()
    const context = await browser.newContext()
    // The pages do not come from the server that is killed.
    for (const [path, body] of Object.entries(pages)) {
      const contentType = path.endsWith('.js') ? 'text/javascript' : 'text/html'
      await context.route(
        ({ pathname }) => pathname === path,
        (route) => route.fulfill({ body, contentType }),
      )
    }
    const orders = Array.from({ length: run.payments }, (_, i) => i * 2)
    const next = async (): Promise<void> => {
      for (let order = orders.shift(); order !== undefined; order = orders.shift()) {
        const what = DISTURBANCES[Math.floor(random() * DISTURBANCES.length)] ?? 'reload'
        const paid = await payOnce(context, addressOf(url, order, run.server), what, random)
        disturbed[what] = (disturbed[what] ?? 0) + 1
        found[paid.found] = (found[paid.found] ?? 0) + 1
        if (paid.hadSecondTab) disturbed['second tab'] = (disturbed['second tab'] ?? 0) + 1
        pressedAgain += paid.pressedAgain ? 1 : 0
        unpaid += paid.isPaid ? 0 : 1
      }
    }
    const paying = { isOver: false }
    const killing = (async () => {
      for (let kills = 0; kills < run.kills; kills++) {
        const due = run.payments * KILLED_SHARE * ((kills + random()) / run.kills)
        while (!paying.isOver && run.payments - orders.length < due) await pass(LOOK_MS)
        await proxy.nextRequest()
        await pass(random() * KILL_MS_MAX)
        if (paying.isOver) return
        await shop.restart()
        serverKills += 1
      }
    })()
    await Promise.all(Array.from({ length: run.atOnce }, next))
    paying.isOver = true
    await Promise.race([killing, pass(LOOK_MS)])
    const rows = shop.charges()
    return {
      seconds: Math.round((performance.now() - began) / 100) / 10,
      serverKills,
      disturbed,
      found,
      pressedAgain,
      faults: proxy.faults,
      charges: rows.length,
      broken: {
        'orders charged twice': rows.length - new Set(rows).size,
        'orders not charged': run.payments - new Set(rows).size,
        'payments that the page does not show as done': unpaid,
        'kills of the server too few': run.kills - serverKills,
        'kinds of faults that never happened': proxy.unseen,
        'kinds of disturbances that never happened': DISTURBANCES.filter((what) => !disturbed[what]).length,
        'disturbances of open payments too few': Math.max(
          0,
          Math.floor(run.payments * MIDWAY_SHARE) - (found['pending'] ?? 0),
        ),
      },
    }
  } finally {
    await browser.close()
    await shop.stop()
    proxy.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** Every third order is kept in localStorage, the others in IndexedDB. */
function addressOf(url: string, order: number, server: Payments['server']): string {
  return `${url}/?order=${order}&server=${server}&storage=${order % 3 === 0 ? 'web' : 'indexeddb'}`
}

interface Paid {
  readonly found: string
  readonly pressedAgain: boolean
  readonly isPaid: boolean
  readonly hadSecondTab: boolean
}

async function payOnce(
  context: BrowserContext,
  address: string,
  what: (typeof DISTURBANCES)[number],
  random: () => number,
): Promise<Paid> {
  let page = await opened(context, address)
  const pressing = page.click('#pay', { clickCount: random() < 0.3 ? 2 : 1, noWaitAfter: true }).catch(() => {})
  if (random() < BEGUN_SHARE) await page.waitForSelector('#pay:not([data-state="none"])').catch(() => {})
  await pass(random() * MOMENT_MS)
  const other = random() < SECOND_TAB_SHARE ? await opened(context, address) : undefined
  await other?.click('#pay', { noWaitAfter: true })
  if (what === 'reload') {
    await pressing
    await page.reload()
    await ready(page)
  } else {
    if (what === 'killed tab') await crash(context, page)
    await page.close()
    page = await opened(context, address)
  }
  await pressing
  const found = await stateOf(page)
  // The user sees that nothing was sent, and presses again.
  const pressedAgain = found === 'none'
  if (pressedAgain) await page.click('#pay')
  const isPaid = await page
    .waitForSelector('#pay[data-state="done"]', { timeout: PAID_MS })
    .then(() => true)
    .catch(() => false)
  await other?.close()
  await page.close()
  return { found, pressedAgain, isPaid, hadSecondTab: other !== undefined }
}

/** Ends the process of the page, which may write nothing more. */
async function crash(context: BrowserContext, page: Page): Promise<void> {
  const session = await context.newCDPSession(page)
  const crashed = page.waitForEvent('crash')
  await Promise.race([session.send('Page.crash').catch(() => {}), crashed])
  await crashed
}

async function opened(context: BrowserContext, address: string): Promise<Page> {
  const page = await context.newPage()
  await page.goto(address)
  await ready(page)
  return page
}

/** The storage was read. */
async function ready(page: Page): Promise<void> {
  await page.waitForSelector('#pay:not([data-state="loading"])', { timeout: PAID_MS })
}

async function stateOf(page: Page): Promise<string> {
  return (await page.getAttribute('#pay', 'data-state')) ?? ''
}
