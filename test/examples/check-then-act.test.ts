import { spawn } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openNaive, openOnce, type Pay } from '../../examples/06-check-then-act/charges.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const TIMEOUT_MS = 120_000
const LATENCY_MS = 50

/** A payment provider that honours idempotency keys, and counts the money it takes. */
class Provider {
  readonly #payments = new Map<string, string>()
  readonly #server = createServer((req, res) => {
    const key = req.headers['idempotency-key']?.toString()
    setTimeout(() => res.end(JSON.stringify({ id: this.pay(key) })), LATENCY_MS)
  })

  get taken(): number {
    return this.#payments.size
  }

  pay(key = `no key ${this.#payments.size}`): string {
    const id = this.#payments.get(key) ?? `payment ${this.#payments.size + 1}`
    this.#payments.set(key, id)
    return id
  }

  async listen(): Promise<string> {
    this.#server.listen(0, '127.0.0.1')
    await onceEvent(this.#server, 'listening')
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  close(): void {
    this.#server.closeAllConnections()
    this.#server.close()
  }
}

describe('example 06-check-then-act', () => {
  let folder: string
  let provider: Provider
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'effectively-once-example-'))
    provider = new Provider()
  })
  afterEach(async () => {
    provider.close()
    await rm(folder, { recursive: true, force: true })
  })

  /** Two clicks at the same time. */
  async function doubleClick(open: typeof openOnce): Promise<number> {
    const pay: Pay = async (_amount, key) => {
      await new Promise((resolve) => setTimeout(resolve, LATENCY_MS))
      return { id: provider.pay(key) }
    }
    const charge = await open(join(folder, 'charges.db'), pay)
    await Promise.all([charge('order-1', 500), charge('order-1', 500)])
    await charge('order-1', 500)
    return provider.taken
  }

  /** A process that is killed once the money is taken, and a retry from another process. */
  async function killedAndRetried(how: 'naive' | 'once'): Promise<number> {
    const url = await provider.listen()
    const run = async (crashAt: string): Promise<{ out: string; signal: string | null }> => {
      const args = [how, join(folder, 'charges.db'), url, 'order-1', '500']
      const child = spawn(process.execPath, ['--import', 'tsx', 'examples/06-check-then-act/main.ts', ...args], {
        cwd: root,
        env: { ...process.env, NODE_NO_WARNINGS: '1', CRASH_AT: crashAt },
        stdio: ['ignore', 'pipe', 'inherit'],
      })
      const [out] = await Promise.all([text(child.stdout), onceEvent(child, 'close')])
      return { out, signal: child.signalCode }
    }
    expect(await run('before-commit')).toEqual({ out: '', signal: 'SIGKILL' })
    expect(provider.taken).toBe(1)
    const { out } = await run('')
    expect(JSON.parse(out)).toEqual({ payment: expect.stringMatching(/^payment \d$/) })
    return provider.taken
  }

  it('check-then-act takes the money of a double click twice', async () => {
    expect(await doubleClick(openNaive)).toBe(2)
  })
  it('the mended one takes it once', async () => {
    expect(await doubleClick(openOnce)).toBe(1)
  })
  it('check-then-act takes it twice when its process dies after the charge', { timeout: TIMEOUT_MS }, async () => {
    expect(await killedAndRetried('naive')).toBe(2)
  })
  it('the mended one takes it once, under the key of the first attempt', { timeout: TIMEOUT_MS }, async () => {
    expect(await killedAndRetried('once')).toBe(1)
  })
})
