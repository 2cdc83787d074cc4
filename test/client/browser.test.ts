import { expect, it } from 'vitest'
import { findChromium } from '../../scripts/servers/chromium.ts'
import { payInBrowser } from './browser/payments.ts'

const TIMEOUT_MS = 120_000
const found = await findChromium()
if ('missing' in found) console.warn(`chromium is missing, its tests are skipped: ${found.missing}`)

it.skipIf('missing' in found).each([
  { server: 'effectively-once', payments: 12, kills: 1 },
  { server: 'stripe', payments: 6, kills: 0 },
] as const)(
  'a payment that is reloaded, closed or killed at any moment is charged once: $server',
  async (run) => {
    const chromium = 'executable' in found ? found.executable : ''
    const { broken, charges } = await payInBrowser({ ...run, seed: 3, chromium, atOnce: 3 })
    // Few payments do not meet every kind of trouble.
    const { 'kinds of faults that never happened': _, 'disturbances of open payments too few': __, ...wrong } = broken
    expect(wrong).toEqual(Object.fromEntries(Object.keys(wrong).map((what) => [what, 0])))
    expect(charges).toBe(run.payments)
  },
  TIMEOUT_MS,
)
