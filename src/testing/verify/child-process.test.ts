import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { runChild } from './child-process.ts'

const WITHIN_MS = 20_000

/** Starts a process that keeps standard error and the channel to `verify` open, as a server for tests may. */
const MODULE = `
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
const left = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'], { detached: true, stdio: ['ignore', 'ignore', 2, 3] })
left.unref()
writeFileSync(new URL('left.pid', import.meta.url), String(left.pid))
`

describe('a process of verify', () => {
  let folder: string
  beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), 'effectively-once-child-'))))
  afterAll(() => rm(folder, { recursive: true, force: true }))

  it('ends with its exit, although a process that it started keeps its pipes open', async () => {
    const file = join(folder, 'handler.mjs')
    await writeFile(file, MODULE)
    const job = { module: pathToFileURL(file).href, name: 'n', left: [], finish: null, next: null }
    const startedAt = performance.now()
    try {
      const { told, end } = await runChild(job, { imports: ['tsx'], withinMs: WITHIN_MS, signal: undefined })
      expect(performance.now() - startedAt).toBeLessThan(WITHIN_MS)
      expect(end).not.toBe('late')
      // What the process wrote before its end was read.
      expect(told).toMatchObject([{ kind: 'refused' }])
    } finally {
      process.kill(Number(await readFile(join(folder, 'left.pid'), 'utf8')), 'SIGKILL')
    }
  }, 60_000)

  it('that ends itself without a word says its exit code', async () => {
    const file = join(folder, 'exits.mjs')
    await writeFile(file, 'process.exit(7)')
    const job = { module: pathToFileURL(file).href, name: 'n', left: [], finish: null, next: null }
    const { end, lastWords } = await runChild(job, { imports: ['tsx'], withinMs: WITHIN_MS, signal: undefined })
    expect({ end, lastWords }).toEqual({ end: 'crashed', lastWords: 'it ended with exit code 7' })
  }, 60_000)
})
