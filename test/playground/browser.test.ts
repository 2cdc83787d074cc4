import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { findChromium } from '../../scripts/servers/chromium.ts'
import { contrast, luminance } from './colour.ts'
import {
  CROSSED,
  CUT_OFF,
  DANGER,
  FOCUSED,
  leaked,
  outside,
  PAGE_WIDTH,
  QUICK_CLICKS,
  SCALES,
  STAGES_FOLLOWED,
  styleOf,
  type Focused,
} from './in-page.ts'
import { launch, startPlayground, type Started } from './world.ts'

/** How long everything goes wrong: 6 s here, 30 s in `npm run test:playground`. */
const FAULTS_MS = Number(process.env['PLAYGROUND_SECONDS'] ?? 6) * 1_000
const TIMEOUT_MS = FAULTS_MS + 240_000
/** WCAG AA. */
const READABLE = 4.5
const FINGER_PX = 40
/** What leads to an answer. */
const CAUSES = ['intent', 'request', 'key', 'ledger', 'outbox']
const WIDTHS = [320, 390, 600, 840, 1000, 1280]
const PHONE = { width: 390, height: 844 }

const found = await findChromium()
if ('missing' in found) console.warn(`chromium is missing, its tests are skipped: ${found.missing}`)

describe.skipIf('missing' in found)('the playground in a browser', () => {
  let started: Started
  let browser: Browser
  let page: Page
  const complaints: string[] = []

  beforeAll(async () => {
    ;[started, browser] = await Promise.all([startPlayground(), launch('executable' in found ? found.executable : '')])
    page = await open()
  }, TIMEOUT_MS)
  afterAll(async () => {
    await browser?.close()
    await started?.stop()
  }, TIMEOUT_MS)
  // Each test begins with a calm round of its own.
  beforeEach(async () => {
    await started.post('/settings', { vertices: { key: true, outbox: true, inbox: true }, traffic: 0 })
    await started.post('/settings', {
      faults: { lostResponses: false, retryStorm: false, duplicates: false, crash: 'off' },
    })
    await started.post('/rounds', {})
    await started.until(({ unsettled, rounds: [round] }) => unsettled === 0 && round?.audit.intents === 0, 'calm')
  }, TIMEOUT_MS)

  async function open(options: Parameters<Browser['newPage']>[0] = {}): Promise<Page> {
    const opened = await browser.newPage(options)
    opened.on('console', (message) => {
      if (message.type() === 'error') complaints.push(message.text())
    })
    opened.on('pageerror', (error) => complaints.push(String(error)))
    await opened.goto(started.url)
    await opened.waitForSelector('html[data-live=yes]')
    return opened
  }

  const count = (what: 'duplicates' | 'losses') => page.locator(`[data-count=${what}] b`)
  const shownCounts = async () => [await count('duplicates').textContent(), await count('losses').textContent()]
  const colourOf = (selector: string, property = 'color') => page.evaluate<string>(styleOf(selector, property))
  const eventually = (check: () => Promise<void>) => vi.waitFor(check, { timeout: 90_000, interval: 100 })

  it(
    `with all three vertices, ${FAULTS_MS / 1_000} s of everything at once leave no duplicate and no loss`,
    async () => {
      const before = await started.snapshot()
      await page.click('#everything')
      const looks: (string | null)[][] = []
      const end = performance.now() + FAULTS_MS
      while (performance.now() < end) {
        looks.push(await shownCounts())
        await page.waitForTimeout(250)
      }
      // A slow machine goes on until the faults have really happened.
      const kills = ({ services }: typeof before) => services.reduce((sum, service) => sum + service.kills, 0)
      await started.until(
        (now) => kills(now) > kills(before) && (now.rounds[0]?.audit.replays ?? 0) > 0,
        'a kill and a replay',
      )
      await page.click('#calm')
      const { rounds } = await started.until(({ unsettled }) => unsettled === 0, 'settled')
      const audit = rounds[0]?.audit
      expect(looks.flat().filter((text) => text !== '0')).toEqual([])
      expect(await shownCounts()).toEqual(['0', '0'])
      expect(audit?.leaks).toEqual({
        key: { duplicates: 0, losses: 0 },
        outbox: { duplicates: 0, losses: 0 },
        inbox: { duplicates: 0, losses: 0 },
      })
      expect(audit?.intents).toBeGreaterThan(5)
      for (const stage of ['answered', 'keys', 'charges', 'events', 'receipts'] as const) {
        expect({ [stage]: audit?.[stage] }).toEqual({ [stage]: audit?.intents })
      }
      expect(audit?.requests).toBeGreaterThan(audit?.intents ?? 0)
      expect(audit?.deliveries).toBeGreaterThan(audit?.receipts ?? 0)
      console.log(
        `everything at once: ${JSON.stringify(audit)}, ${kills(await started.snapshot()) - kills(before)} kills`,
      )
    },
    TIMEOUT_MS,
  )

  it.each([
    ['key', 'duplicates', 'losses', 2],
    ['outbox', 'losses', 'duplicates', 1],
    ['inbox', 'duplicates', 'losses', 2],
  ] as const)(
    'without the %s its %s appear in red; put back, the count stays at zero',
    async (vertex, leak, none, least) => {
      await page.click(`[data-vertex=${vertex}]`)
      await page.click('#show-leak')
      await eventually(async () => expect(Number(await count(leak).textContent())).toBeGreaterThanOrEqual(least))
      const leaking = await started.snapshot()
      expect(leaking.rounds[0]?.vertices[vertex]).toBe(false)
      expect(leaking.rounds[0]?.audit.leaks[vertex][leak]).toBeGreaterThanOrEqual(least)
      expect(await count(none).textContent()).toBe('0')
      expect(await colourOf(`[data-count=${leak}] b`)).not.toBe(await colourOf(`[data-count=${none}] b`))
      expect(await page.locator(`#leak-${vertex}`).textContent()).toMatch(/^\d+ (duplicates?|lost)$/)

      // The same faults, with the vertex back in its place.
      await page.click(`[data-vertex=${vertex}]`)
      const back = await started.until(
        ({ rounds: [round] }) => round?.vertices[vertex] === true && (round?.audit.answered ?? 0) >= 5,
        'five answers with the vertex back',
      )
      expect(back.settings.traffic).toBeGreaterThan(0)
      await page.click('#calm')
      const { rounds } = await started.until(({ unsettled }) => unsettled === 0, 'settled')
      expect(rounds[0]?.audit.leaks[vertex]).toEqual({ duplicates: 0, losses: 0 })
      expect(rounds[0]?.audit.receipts).toBe(rounds[0]?.audit.intents)
      await eventually(async () => expect(await page.locator('#hint').textContent()).toMatch(/^All three/))
      expect(await shownCounts()).toEqual(['0', '0'])
    },
    TIMEOUT_MS,
  )

  it(
    'one operation is followed by its causation id from request to receipt',
    async () => {
      await page.click('#charge')
      const row = page.locator('.stages tbody tr').first()
      await row.locator('[data-stage=receipts].has').waitFor({ timeout: 90_000 })
      const name = await row.locator('button').textContent()
      await row.locator('button').click()
      await page.locator('#happenings [data-stage=receipt]').waitFor({ timeout: 90_000 })
      const stages = await page.evaluate<string[]>(STAGES_FOLLOWED)
      expect(new Set(stages)).toEqual(new Set([...CAUSES, 'answer', 'broker', 'receipt']))
      // Nothing is shown before its cause: the answer comes after the commit, and the receipt after the delivery.
      expect(stages.filter((stage) => [...CAUSES, 'answer'].includes(stage))).toEqual([...CAUSES, 'answer'])
      expect(stages.filter((stage) => stage !== 'answer')).toEqual([...CAUSES, 'broker', 'receipt'])
      expect(await page.locator('#follow-name').textContent()).toBe(name)
      expect(new URL(page.url()).hash).toBe(`#${name}`)
      await page.click('#unfollow')
      expect(await page.locator('#follow').isHidden()).toBe(true)
    },
    TIMEOUT_MS,
  )

  it(
    'everything can be reached and used by keyboard',
    async () => {
      await page.locator('.skip').focus()
      const reached = new Set<string>()
      for (let presses = 0; presses < 40; presses++) {
        const focused = await page.evaluate<Focused>(FOCUSED)
        if (focused.name !== '') {
          expect(focused).toMatchObject({
            label: expect.stringMatching(/\S/),
            outlineStyle: 'solid',
            outlineWidth: '3px',
          })
          reached.add(focused.name)
        }
        await page.keyboard.press('Tab')
      }
      const all = [
        'key',
        'outbox',
        'inbox',
        'charge',
        'charge-ten',
        'traffic',
        'lostResponses',
        'retryStorm',
        'duplicates',
      ]
      for (const name of [...all, 'crash', 'everything', 'calm', 'kill-shop', 'kill-receipts', 'new-round']) {
        expect([...reached]).toContain(name)
      }
      await page.focus('[data-vertex=inbox]')
      await page.keyboard.press('Space')
      await started.until(({ settings }) => !settings.vertices.inbox, 'the inbox off, by Space')
      await page.focus('[data-fault=duplicates]')
      await page.keyboard.press('Space')
      await started.until(({ settings }) => settings.faults.duplicates, 'the duplicating broker, by Space')
      await page.focus('#charge')
      await page.keyboard.press('Enter')
      await eventually(async () => expect(Number(await count('duplicates').textContent())).toBeGreaterThan(0))
      await eventually(async () =>
        expect(await page.locator('#status').textContent()).toMatch(/^Round \d+: [1-9]\d* duplicate/),
      )
      expect(await page.locator('#status').getAttribute('aria-live')).toBe('polite')
    },
    TIMEOUT_MS,
  )

  it.each(['light', 'dark'] as const)('is %s where that is preferred, and can be read', async (colorScheme) => {
    await page.emulateMedia({ colorScheme })
    // Colours change in a moment, not at once.
    await expect.poll(() => unreadable(colorScheme)).toEqual([])
  })

  const unreadable = async (colorScheme: 'light' | 'dark'): Promise<[string, number][]> => {
    const paper = await colourOf('body', 'backgroundColor')
    const isDark = luminance(paper) < 0.05
    if (isDark !== (colorScheme === 'dark')) return [['body', luminance(paper)]]
    const ratios: [string, number][] = []
    for (const selector of ['body', '.lead', '.note', '#new-round', '[data-count=losses]']) {
      ratios.push([selector, contrast(await colourOf(selector), paper)])
    }
    for (const button of ['#charge', '[data-vertex=key]', '#calm']) {
      const [ink, ground] = [await colourOf(button), await colourOf(button, 'backgroundColor')]
      ratios.push([button, contrast(ink, ground)])
    }
    // Red is red on this paper too.
    ratios.push(['danger', contrast(await page.evaluate<string>(DANGER), paper)])
    return ratios.filter(([, ratio]) => !(ratio >= READABLE))
  }

  it(
    'fits a phone',
    async () => {
      const phone = await open({ viewport: PHONE, hasTouch: true, isMobile: true })
      await phone.tap('#charge')
      await phone.locator('.stages tbody .has[data-stage=receipts]').first().waitFor({ timeout: 90_000 })
      expect(await phone.evaluate<number>(PAGE_WIDTH)).toBe(PHONE.width)
      expect(await phone.evaluate(outside(PHONE.width))).toEqual([])
      for (const selector of ['[data-vertex=key]', '[data-vertex=outbox]', '#charge', '#everything']) {
        const box = await phone.locator(selector).boundingBox()
        expect(Math.min(box?.width ?? 0, box?.height ?? 0)).toBeGreaterThanOrEqual(FINGER_PX)
      }
      await phone.close()
    },
    TIMEOUT_MS,
  )

  it.each(WIDTHS)('at %i px no edge crosses a count, and the select shows its widest choice', async (width) => {
    const narrow = await browser.newPage({ viewport: { width, height: 900 } })
    // No snapshot may change the texts.
    await narrow.route('**/live', (route) => route.abort())
    await narrow.goto(started.url)
    expect(await narrow.evaluate(CUT_OFF)).toBe(0)
    expect(await narrow.evaluate(CROSSED)).toEqual([])
    for (const much of ['999', '12,345'] as const) {
      await narrow.evaluate(leaked(much))
      expect({ much, crossed: await narrow.evaluate(CROSSED) }).toEqual({ much, crossed: [] })
      expect({ much, outside: await narrow.evaluate(outside(width)) }).toEqual({ much, outside: [] })
    }
    await narrow.close()
  })

  it('plots have a scale', async () => {
    const plots = await page.evaluate<{ scale: number[]; time: string[] }[]>(SCALES)
    expect(plots).toHaveLength(4)
    for (const { scale, time } of plots) {
      const [most = 0, half, none] = scale
      expect([most > 0, half, none]).toEqual([true, most / 2, 0])
      expect(time).toEqual(['60 s ago', 'now'])
    }
  })

  it(
    '"Make it show" acts on what was switched a moment ago',
    async () => {
      await page.click('[data-vertex=key]')
      await page.locator('#show-leak').waitFor({ timeout: 90_000 })
      await page.evaluate(QUICK_CLICKS)
      const { settings } = await started.until(({ settings }) => settings.traffic > 0, 'customers')
      expect(settings.vertices).toEqual({ key: true, outbox: true, inbox: false })
      expect(settings.faults).toMatchObject({ lostResponses: false, duplicates: true })
    },
    TIMEOUT_MS,
  )

  it('made no complaint on the console', () => {
    expect(complaints).toEqual([])
  })
})
