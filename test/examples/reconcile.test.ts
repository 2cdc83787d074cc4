import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))

it(
  'the example refunds exactly the double charges, each once, and settles the unknown ones',
  { timeout: 60_000 },
  async () => {
    const args = ['--import', 'tsx', 'examples/reconcile/main.ts']
    const { stdout } = await promisify(execFile)(process.execPath, args, { cwd: root })
    expect(stdout).toContain('200 orders, 224 charges: 24 too many, 5 orders with an unknown outcome')
    expect(stdout).toContain('the plan found 24 double and 5 orphaned charges; 29 were compensated')
    expect(stdout).toContain('24 refunds, and 0 surplus charges are left')
    expect(stdout).toContain('200 orders are answered with the charge that is left')
  },
)
