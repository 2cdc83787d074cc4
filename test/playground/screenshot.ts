/** Makes docs/playground.png anew: `npm run playground:screenshot`. Every vertex was away once; now all three are back. */
import { fileURLToPath } from 'node:url'
import { findChromium } from '../../scripts/servers/chromium.ts'
import { launch, startPlayground } from './world.ts'

const FILE = fileURLToPath(new URL('../../docs/playground.png', import.meta.url))
const ALL = { key: true, outbox: true, inbox: true }
const CALM = { lostResponses: false, retryStorm: false, duplicates: false, crash: 'off' }
const LEAKS = [
  ['key', { lostResponses: true }],
  ['outbox', { crash: 'after-commit' }],
  ['inbox', { duplicates: true }],
] as const

const found = await findChromium()
if ('missing' in found) {
  console.error(`No browser: ${found.missing}`)
  process.exit(1)
}
const started = await startPlayground()
const browser = await launch(found.executable)
try {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' })
  await page.goto(started.url)
  for (const [vertex, faults] of LEAKS) {
    await started.post('/settings', {
      vertices: { ...ALL, [vertex]: false },
      faults: { ...CALM, ...faults },
      traffic: 6,
    })
    await started.until(({ rounds: [round] }) => {
      if (round?.vertices[vertex] !== false || round.audit.intents < 20) return false
      const { duplicates, losses } = round.audit.leaks[vertex]
      return duplicates + losses >= 3
    }, 'a leak')
  }
  await started.post('/settings', { faults: CALM, traffic: 0 })
  await started.until(({ unsettled }) => unsettled === 0, 'calm')
  const faults = { lostResponses: true, retryStorm: true, duplicates: true, crash: 'anywhere' }
  await started.post('/settings', { vertices: ALL, faults, traffic: 6 })
  await started.until(({ rounds: [round] }) => {
    return round?.vertices.inbox === true && round.audit.intents >= 30
  }, 'thirty operations')
  // Fewer at a time, so that those on the page are on their whole way.
  await started.post('/settings', { traffic: 1.5 })
  await started.until(({ operations }) => operations.filter(({ receipts }) => receipts === 1).length >= 4, 'receipts')
  await page.waitForTimeout(100)
  await page.screenshot({ path: FILE, fullPage: true })
  console.log(`docs/playground.png: ${JSON.stringify((await started.snapshot()).rounds[0]?.audit.leaks)}`)
} finally {
  await browser.close()
  await started.stop()
}
