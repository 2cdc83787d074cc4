import { readdirSync, readFileSync, statSync } from 'node:fs'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { isAlive, startPlayground, type Started } from './world.ts'

const TIMEOUT_MS = 240_000
/** The promise is kept on a machine of one's own; here other tests run at the same time. */
const START_MS_MAX = process.env['PLAYGROUND_SECONDS'] ? 30_000 : 90_000
const LINES_MAX = 350
const FOLDER = fileURLToPath(new URL('../../examples/playground', import.meta.url))

describe('npm start', () => {
  it(
    'answers soon without a terminal, and Ctrl-C ends every process and leaves nothing behind',
    async () => {
      const folder = await mkdtemp(join(tmpdir(), 'effectively-once-start-'))
      onTestFinished(() => rm(folder, { recursive: true, force: true }))
      const started = await startPlayground('examples/story/main.ts', { TMPDIR: folder })
      onTestFinished(async () => void (await started.stop()))
      const page = await fetch(started.url)
      expect(page.status).toBe(200)
      expect(await page.text()).toContain('The Effectively-Once Triangle')
      expect(started.startMs).toBeLessThan(START_MS_MAX)
      console.log(`story told and page answered after ${Math.round(started.startMs)} ms`)
      const { services } = await started.snapshot()
      const pids = services.flatMap(({ pid }) => (pid === null ? [] : [pid]))
      expect(pids).toHaveLength(2)
      expect(await readdir(folder)).toContainEqual(expect.stringMatching(/^effectively-once-playground-/))
      expect(pids.every(isAlive)).toBe(true)
      expect(await started.stop()).toBe(0)
      expect(pids.filter(isAlive)).toEqual([])
      // tsx keeps what it has compiled there.
      expect((await readdir(folder)).filter((name) => name.startsWith('effectively-once'))).toEqual([])
    },
    TIMEOUT_MS,
  )
})

describe('the playground over HTTP', () => {
  let started: Started
  beforeAll(async () => {
    started = await startPlayground()
  }, TIMEOUT_MS)
  afterAll(() => started?.stop())

  it.each([
    ['/settings', '{', 400, 'the body is no JSON object'],
    ['/settings', { vertices: { lock: true } }, 400, "there is no setting 'lock'"],
    ['/settings', { vertices: { key: 'yes' } }, 400, 'key is true or false'],
    ['/settings', { faults: { crash: 'everywhere' } }, 400, 'there is no such point to crash at'],
    ['/settings', { traffic: 1e9 }, 400, 'traffic is a number from 0 to 20'],
    ['/charges', { count: 0 }, 400, 'count is a whole number from 1 to 50'],
    ['/kills', { service: 'init' }, 400, "service is 'shop' or 'receipts'"],
    ['/nothing', {}, 404, 'no such verb'],
  ])('refuses %s %j in one line', async (path, body, status, error) => {
    expect(await started.post(path, body)).toEqual({ status, body: { error } })
    const { settings } = await started.snapshot()
    expect(settings.vertices).toEqual({ key: true, outbox: true, inbox: true })
  })

  it('serves the files of its page and nothing else', async () => {
    const get = async (path: string): Promise<number> => (await fetch(new URL(path, started.url))).status
    expect(await get('/app.js')).toBe(200)
    expect(await get('/..%2fserver.ts')).toBe(404)
    expect(await get('/server.ts')).toBe(404)
    expect(await get('/operations/op-none')).toBe(404)
  })

  it('is no servant of other sites', async () => {
    const origin = await fetch(new URL('/charges', started.url), {
      method: 'POST',
      headers: { 'content-type': 'application/json', origin: 'https://elsewhere.example' },
      body: '{}',
    })
    expect(origin.status).toBe(403)
    const form = await fetch(new URL('/charges', started.url), { method: 'POST', body: 'count=1' })
    expect(form.status).toBe(415)
    expect((await started.snapshot()).rounds[0]?.audit.intents).toBe(0)
  })

  it(
    'a service killed by hand comes back, and what it was asked is answered',
    async () => {
      const before = await started.snapshot()
      expect((await started.post('/kills', { service: 'shop' })).body).toEqual({ killed: true })
      await started.post('/charges', { count: 3 })
      const after = await started.until(
        ({ rounds: [round], unsettled }) => unsettled === 0 && round?.audit.receipts === 3,
        'three receipts',
      )
      const shop = (snapshot: typeof before) => snapshot.services.find(({ name }) => name === 'shop')
      expect(shop(after)?.kills).toBe(1)
      expect(shop(after)?.pid).not.toBe(shop(before)?.pid)
      expect(after.rounds[0]?.audit).toMatchObject({ intents: 3, answered: 3, charges: 3, events: 3, receipts: 3 })
    },
    TIMEOUT_MS,
  )
})

describe('its files', () => {
  const files = ['', 'services', 'page'].flatMap((folder) =>
    readdirSync(join(FOLDER, folder))
      .map((name) => join(FOLDER, folder, name))
      .filter((path) => statSync(path).isFile()),
  )

  it('use the public API only', () => {
    const imports = files.flatMap((file) =>
      [...readFileSync(file, 'utf8').matchAll(/from '([^']*)'/g)].map(([, path]) => path ?? ''),
    )
    expect(imports.filter((path) => /^effectively-once(\/[\w-]+)?$/.test(path)).length).toBeGreaterThan(5)
    expect(imports.filter((path) => path.includes('/src/'))).toEqual([])
  })
  it('are short, and bring nothing from elsewhere', () => {
    const texts = files.map((file) => [file, readFileSync(file, 'utf8')] as const)
    expect(texts.filter(([, text]) => text.split('\n').length > LINES_MAX).map(([file]) => file)).toEqual([])
    const elsewhere = /https?:\/\/(?!www\.w3\.org|localhost|127\.0\.0\.1|\$\{)[\w.]+/g
    expect(texts.flatMap(([, text]) => text.match(elsewhere) ?? [])).toEqual([])
  })
})
