import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { Example } from './support/example.ts'

const TIMEOUT_MS = 120_000
const WHOLE = 'You asked "Tell me". Once upon a time there was a payment that was made exactly once.'

describe('example 09-llm-stream', () => {
  let folder: string
  beforeEach(async () => void (folder = await mkdtemp(join(tmpdir(), 'effectively-once-example-'))))
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const headers = {
    'content-type': 'application/json',
    'idempotency-key': 'q-1',
    authorization: 'Bearer token-of-ann',
  }
  const ask = (example: Example): Promise<Response | undefined> =>
    example.post('/answers', JSON.stringify({ prompt: 'Tell me' }), headers)
  const tokensIn = (events: string): string =>
    events
      .split('\n')
      .filter((line) => line.startsWith('data: '))
      .map((line) => JSON.parse(line.slice('data: '.length)) as string)
      .join('')

  it(
    'goes on behind the last recorded token after a kill, and records one answer',
    async () => {
      const file = join(folder, 'answers.db')
      const env = { DATABASE_FILE: file }
      const killed = await Example.start('09-llm-stream', env, 'before-commit')
      const cut = await ask(killed)
      await cut?.text().catch(() => '')
      expect(await killed.death()).toBe('SIGKILL')
      const second = await Example.start('09-llm-stream', env)
      try {
        let answer = await ask(second)
        // The lease of the dead process must lapse first.
        for (let tries = 0; answer?.status === 409 && tries < 20; tries++) {
          await new Promise((resolve) => setTimeout(resolve, 500))
          answer = await ask(second)
        }
        expect([answer?.status, tokensIn((await answer?.text()) ?? '')]).toEqual([200, WHOLE])
        const replay = await ask(second)
        expect(tokensIn((await replay?.text()) ?? '')).toBe(WHOLE)
      } finally {
        await second.stop()
      }
      const store = sqliteStore({ file })
      const { rows } = await store.transaction((tx) => tx.query('select answer from answers'))
      await store.close()
      expect(rows).toEqual([{ answer: WHOLE }])
    },
    TIMEOUT_MS,
  )
})
