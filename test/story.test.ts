import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const root = fileURLToPath(new URL('..', import.meta.url))
const TIMEOUT_MS = 120_000

/** `npm start -- --story-only`, without npm. */
async function tellStory(
  env: Record<string, string> = {},
  args: readonly string[] = ['--story-only'],
): Promise<{ out: string; errors: string; code: number }> {
  const { NO_COLOR: _no, FORCE_COLOR: _force, ...inherited } = process.env
  const child = spawn(process.execPath, ['--import', 'tsx', 'examples/story/main.ts', ...args], {
    cwd: root,
    env: { ...inherited, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close') as Promise<[code: number]>
  const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { out, errors, code }
}

/** The lines below a chapter's heading, without their indentation. */
function chapter(out: string, heading: string): string[] {
  const [, rest = ''] = out.split(`\n${heading}`)
  return (rest.split('\n\n')[0] ?? '')
    .split('\n')
    .slice(1)
    .map((line) => line.trim().replaceAll(/ {2,}/g, ' | '))
}

const ESCAPE = '\u001b'

describe('npm start', () => {
  it(
    'tells of three requests, two killed processes and a repeated event: one charge and one receipt each',
    async () => {
      const { out, errors, code } = await tellStory({ NO_COLOR: '1', FORCE_COLOR: '1' })
      expect({ errors, code }).toEqual({ errors: '', code: 0 })
      expect(chapter(out, '1.')).toEqual([
        'key | order-1001, charge 500',
        'first click | got charge #1 of 500 | the handler ran',
        'second click got charge #1 of 500 | replay, nothing ran',
        'later retry | got charge #1 of 500 | replay, nothing ran',
        'ledger | 1 charge',
      ])
      expect(chapter(out, '2.')).toEqual([
        'key | order-1002, charge 700',
        'child | charge, record and answer written; COMMIT is next',
        'parent | killed it: SIGKILL; it answered nobody',
        'ledger | 0 charges before the retry',
        'retry | got charge #2 of 700 | the handler ran',
        'ledger | 1 charge',
        'key | order-1003, charge 900',
        'child | COMMIT done',
        'parent | killed it: SIGKILL; it answered nobody',
        'ledger | 1 charge before the retry',
        'retry | got charge #3 of 900 | replay, nothing ran',
        'ledger | 1 charge',
      ])
      expect(chapter(out, '3.')).toEqual([
        'key | order-1004, charge 300',
        'request | got charge #4 of 300 | the handler ran',
        'ledger | 1 charge',
        'relay | sent 4 events, also those of the processes that were killed',
        'broker | made 8 deliveries of them',
        'consumer | its handler ran 4 times',
        'receipts | 1 for each of the 4 keys',
      ])
      expect(out).toContain('4 keys, 8 requests, 2 kills, 8 deliveries: one charge and one receipt per key.')
      expect(out).not.toContain('The playground is open')
      expect(out).not.toContain(ESCAPE)
    },
    TIMEOUT_MS,
  )

  it(
    'says so in red, and fails, when a key was charged twice',
    async () => {
      const { out, code } = await tellStory({ STORY_PLANT: 'order-1002', FORCE_COLOR: '1' })
      expect(code).toBe(1)
      expect(out).toContain(`${ESCAPE}[31m2 charges: there must be 1${ESCAPE}[0m`)
      expect(out).toContain(`${ESCAPE}[31mNot one charge and one receipt: order-1002${ESCAPE}[0m`)
      expect(out).not.toContain('one charge and one receipt per key')
    },
    TIMEOUT_MS,
  )

  it(
    'says so in red, and opens no playground, when an event made two receipts',
    async () => {
      const { out, code } = await tellStory({ STORY_PLANT_RECEIPT: 'order-1004', FORCE_COLOR: '1' }, [])
      expect(code).toBe(1)
      expect(out).toContain(`${ESCAPE}[31m2 for order-1004: there must be 1${ESCAPE}[0m`)
      expect(out).not.toContain('The playground is open')
    },
    TIMEOUT_MS,
  )

  it('refuses an option it does not know, in one line', async () => {
    expect(await tellStory({}, ['--nonsense'])).toEqual({
      out: '',
      errors: 'There is no option --nonsense. Use: npm start [-- --story-only]\n',
      code: 2,
    })
  })
})
