import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { sqliteStore } from '../../src/entry/sqlite.ts'
import { effectivelyOnce, final } from '../../src/index.ts'
import { cli, compiled } from './run.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'once-reconcile-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

const moduleOf = (entry: string): string => `
import { appendFileSync } from 'node:fs'
import { effectivelyOnce } from '${entry}/index.js'
import { sqliteStore } from '${entry}/entry/sqlite.js'
import { reconciliation } from '${entry}/entry/reconciliation.js'
const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file: '${join(folder, 'shop.db')}' }), guard: 'off', sweep: false })
await once.migrate()
const rows = (...keys) => () => keys.map((key) => ({ key, card: '4242' }))
export default reconciliation({
  once, name: 'charges', ours: rows('a', 'b', 'c'), theirs: rows('a', 'a', 'b', 'd'), key: ({ key }) => key,
  compensate: { double: async ({ key }) => appendFileSync('${join(folder, 'made')}', 'refund ' + key) },
})
`

describe('reconcile', () => {
  it('plans, runs once, and refuses a wrong module', { timeout: 120_000 }, async () => {
    const file = join(folder, 'charges.mjs')
    await writeFile(file, moduleOf(compiled()))
    const planned = await cli(['reconcile', 'plan', file])
    expect(planned).toMatchObject({ code: 3, err: '' })
    expect(planned.out).toContain('3 of ours and 4 of theirs: 1 missing, 1 double, 1 orphaned')
    expect(planned.out).toContain('double a')
    expect(planned.out).not.toContain('4242')
    expect((await cli(['reconcile', 'plan', file, '--reveal'])).out).toContain('4242')
    expect(await cli(['reconcile', 'run', file])).toMatchObject({ code: 2, out: '' })
    for (let again = 0; again < 2; again++) {
      const { code, out } = await cli(['reconcile', 'run', file, '--why', 'INC-20', '--json'])
      expect(code).toBe(0)
      expect(JSON.parse(out)).toMatchObject({ name: 'charges', state: 'done', missing: 1, double: 1, compensated: 1 })
    }
    const made = await readFile(join(folder, 'made'), 'utf8')
    expect(made).toBe('refund a')
    await writeFile(join(folder, 'none.mjs'), 'export const x = 1')
    const wrong = await cli(['reconcile', 'plan', join(folder, 'none.mjs')])
    expect(wrong).toMatchObject({ code: 2, out: '' })
    expect(wrong.err).toContain('exports no reconciliation')
    expect(await cli(['reconcile', 'plan', join(folder, 'missing.mjs')])).toMatchObject({ code: 2, out: '' })
    expect(await cli(['reconcile', 'plan'])).toMatchObject({ code: 2, out: '' })
  })
})

describe('operations settle --undo', () => {
  it('has the finished steps undone by the next attempt, and shows them', { timeout: 120_000 }, async () => {
    const url = join(folder, 'operations.db')
    const once = effectivelyOnce({ namespace: 'shop', store: sqliteStore({ file: url }), guard: 'off', sweep: false })
    await once.migrate()
    const undone: string[] = []
    let id = ''
    const run = (): Promise<unknown> =>
      once.run({ scope: 'ann', key: 'k', input: 1, lease: '5s' }, async (op) => {
        id = op.id
        await op.step('pay', async () => 'paid', {
          undo: async () => {
            undone.push('pay')
            throw final({ status: 410, body: 'too old' })
          },
        })
        throw new Error('down')
      })
    const settle = (...args: string[]): ReturnType<typeof cli> =>
      cli(['operations', 'settle', id, ...args, '--why', 'INC-19', '--url', url])
    await expect(run()).rejects.toThrow('down')
    expect(await settle('--undo', '409', '--fail', '409')).toMatchObject({ code: 2 })
    expect(await settle('--undo', '409', '--body', '"cancelled"')).toMatchObject({ code: 0 })
    expect((await cli(['operations', 'show', id, '--url', url])).out).toMatch(/refusal +409/)
    await expect(run()).rejects.toMatchObject({ code: 'ONCE_OUTCOME_UNKNOWN' })
    expect(await settle('--step', 'pay', '--undone', '"by hand"')).toMatchObject({ code: 0 })
    await expect(run()).rejects.toMatchObject({ status: 409, body: 'cancelled' })
    expect(undone).toEqual(['pay'])
    expect((await cli(['operations', 'show', id, '--url', url])).out).toContain('step pay: done, undone')
    await once.close()
  })
})
