import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { plan } from './reconcile.ts'
import { EXIT } from './usage.ts'

const MODULE = `
const plan = async ({ signal }) => {
  const all = signal.aborted ? 0 : 3
  const state = signal.aborted ? 'stopped' : 'done'
  return { state, ours: all, theirs: all, missing: 0, double: 0, orphaned: 0, examples: [] }
}
export default { name: 'charges', plan, run: plan, close: async () => {} }
`

it('a plan that was stopped does not say that nothing was found', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'once-plan-'))
  const operand = join(folder, 'charges.mjs')
  await writeFile(operand, MODULE)
  const planned = (signal: AbortSignal) =>
    plan({ operand, values: {} } as never, { progress: () => {}, out: async () => {}, signal })
  const whole = await planned(new AbortController().signal)
  expect(whole).toMatchObject({ exit: EXIT.done, data: { ours: 3, state: 'done' } })
  const stopped = await planned(AbortSignal.abort())
  expect(stopped).toMatchObject({ exit: EXIT.attention, data: { ours: 0, state: 'stopped' } })
  expect(stopped.text).toContain('stopped before the end')
  await rm(folder, { recursive: true })
})
