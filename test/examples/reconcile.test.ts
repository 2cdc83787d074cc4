import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

it('the example finds exactly the double charges, and refunds each once', { timeout: 60_000 }, async () => {
  const args = ['--import', 'tsx', 'examples/reconcile/main.ts']
  const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root })
  expect(stdout).toContain('200 orders, 224 charges: 24 too many')
  expect(stdout).toContain('the plan found 24 double charges; 24 were refunded, 24 refunds made')
  expect(stdout).toContain('24 refunds, and 0 surplus charges are left')
})
