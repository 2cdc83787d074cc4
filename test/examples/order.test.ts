import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import type { Report } from '../../examples/order/report.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const TIMEOUT_MS = 240_000

/** `npm run example:order`, without npm. */
async function order(
  args: readonly string[],
  env: Record<string, string> = {},
  program: readonly string[] = ['scripts/compiled.mjs', 'examples/order/main.ts'],
): Promise<{ out: string; errors: string; code: number }> {
  const child = spawn(process.execPath, [...program, ...args], {
    cwd: root,
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const ended = once(child, 'close') as Promise<[code: number]>
  const [out, errors, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended])
  return { out, errors, code }
}

describe('the order example', () => {
  it(
    'has every effect once while ten processes are killed: four services, one order each time',
    async () => {
      const { out, code } = await order(['--orders', '8', '--kills', '10', '--seed', '7', '--json'])
      const report = JSON.parse(out) as Report
      expect(report.problems).toEqual([])
      expect({ code, ok: report.ok }).toEqual({ code: 0, ok: true })
      const once = {
        charges: 1,
        couriers: 1,
        cancellations: 0,
        orders: 1,
        movements: 1,
        mails: 1,
        credits: 1,
        sameAgain: true,
      }
      const paid = report.lines.filter(({ status }) => status === 201)
      expect(paid).toHaveLength(7)
      for (const line of paid) expect(line).toMatchObject(once)
      const declined = report.lines.filter(({ status }) => status === 402)
      expect(declined).toMatchObject([{ charges: 0, orders: 0, movements: 0, mails: 0, credits: 0, sameAgain: true }])
      // The refused order kept no courier.
      expect(declined).toMatchObject([{ couriers: 1, cancellations: 1 }])
      // Ten at random, and the referrals service once more while it redrives.
      expect(Object.values(report.kills).reduce((sum, times) => sum + times, 0)).toBe(11)
      expect(report).toMatchObject({ parked: 2, redriven: 2, published: 14 })
      // To three services each; what a relay is still busy with is not sent again.
      expect(report.resent).toBeGreaterThan(14)
      expect(report.deliveries).toBeGreaterThanOrEqual(report.resent)
    },
    TIMEOUT_MS,
  )

  it(
    'notices, names it and fails when a service forgets what it has applied',
    async () => {
      const { out, code } = await order(['--orders', '2', '--kills', '0', '--seed', '7'], { ORDER_PLANT: 'no-inbox' })
      expect(code).toBe(1)
      expect(out).toMatch(/order-001: movements happened [2-9] times, not 1/)
      expect(out).toMatch(/the stock of (tea|mug) is \d+, not \d+/)
      expect(out).not.toContain('each effect happened once')
    },
    TIMEOUT_MS,
  )

  it(
    'refuses what it does not understand, in one line',
    async () => {
      const refused = async (...args: string[]): Promise<unknown> =>
        order(args, {}, ['--import', 'tsx', 'examples/order/main.ts'])
      expect(await refused('--kills', 'many')).toEqual({
        out: '',
        errors:
          '--kills is from 0 to 1000. Use: npm run example:order -- [--orders 20] [--kills 10] [--seed n] [--json]\n',
        code: 2,
      })
      expect(await refused('--nonsense')).toMatchObject({ out: '', code: 2 })
    },
    TIMEOUT_MS,
  )
})
