import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, expect, it } from 'vitest'
import type { Cancellation } from '../../src/index.ts'
import { describePostgres } from '../support/postgres.ts'
import { freshWorld } from './fresh-world.ts'
import { startRelayChild } from './relay-child.ts'
import { wait } from './service.ts'
import { until, type Step } from './world.ts'

const EVENTS = 150
/** However slow the machine is, an event is published before its time. */
const DELAYED_MS = 3_000
const KILLS = 2

describePostgres('relays that are killed while delayed events are cancelled', () => {
  const here = freshWorld()
  const children = new Set<ChildProcess>()
  const folder = mkdtempSync(join(tmpdir(), 'cancel-'))
  const file = join(folder, 'sent')

  afterEach(() => {
    for (const child of children) child.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })

  const startRelay = (): Promise<ChildProcess> => startRelayChild(children, { url: here.url, file })

  const sent = (): Set<number> =>
    new Set([...readFileSync(file, 'utf8').matchAll(/"n": ?(\d+)/g)].map(([, n]) => Number(n)))

  it('send nothing of what was cancelled, and all of the rest', { timeout: 180_000 }, async () => {
    writeFileSync(file, '')
    const { once } = here.world
    let relay = await startRelay()
    await startRelay()
    const answers = new Map<number, Cancellation>()
    const cancelling: Promise<void>[] = []
    const publishing = (async () => {
      for (let n = 0; n < EVENTS; n++) {
        const data: Step = { aggregate: `a${n % 20}`, n }
        const at = Date.now() + DELAYED_MS
        const options = { notBefore: new Date(at) }
        const id = await once.run({ scope: 's', key: `k${n}`, input: n }, (op) =>
          op.publish('step.made', data, options),
        )
        // Around its time: half of them by as little as may be, the others so that a slow machine is early too.
        const aroundMs = n % 2 === 0 ? 60 : 1_200
        const cancel = async (): Promise<void> => {
          await wait(at - Date.now() + aroundMs * (Math.random() - 0.6))
          answers.set(n, await once.cancel(id))
        }
        cancelling.push(cancel())
      }
    })()
    for (let kill = 0; kill < KILLS; kill++) {
      await until(() => answers.size >= ((kill + 1) * EVENTS) / (KILLS + 2), 60_000)
      relay.kill('SIGKILL')
      relay = await startRelay()
    }
    await publishing
    await Promise.all(cancelling)
    const of = (answer: Cancellation): number[] => [...answers].filter(([, is]) => is === answer).map(([n]) => n)
    await until(() => of('due').every((n) => sent().has(n)), 60_000)
    await wait(1_500)
    expect(of('cancelled').filter((n) => sent().has(n))).toEqual([])
    expect(of('cancelled').length + of('due').length).toBe(EVENTS)
    // A run in which everybody came too late, or nobody did, proves nothing.
    expect(of('cancelled').length).toBeGreaterThan(EVENTS / 10)
    expect(of('due').length).toBeGreaterThan(EVENTS / 10)
  })
})
