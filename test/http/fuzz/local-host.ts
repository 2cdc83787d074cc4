import { memoryStore } from '../../../src/entry/testing.ts'
import { effectivelyOnce } from '../../../src/index.ts'
import type { AppPlan, Bench } from './apps/app.ts'
import { openApp } from './apps/apps.ts'
import { Desk } from './desk.ts'
import type { Host, Hosts, Seen } from './hosts.ts'

/** Serves in this very process. */
export class LocalHost implements Host {
  readonly #desk = new Desk()
  readonly #store = memoryStore({ unique: { effect: ['uid'] }, pool: { size: 64 } })
  readonly #once: Bench['once']
  #migrated: Promise<unknown> | undefined
  readonly #ports = new Map<string, Promise<number>>()
  readonly deaths = 0
  readonly lastWords = ''

  constructor(apps: 'plain' | 'protected') {
    const options = { namespace: 'fuzz', store: this.#store, guard: 'off', sweep: false } as const
    this.#once = apps === 'plain' ? null : effectivelyOnce(options)
  }

  async port({ adapter, protocol, stack }: AppPlan): Promise<number> {
    await (this.#migrated ??= this.#store.schema.migrate())
    const plan = { adapter, protocol, stack }
    const name = JSON.stringify(plan)
    let port = this.#ports.get(name)
    if (!port) {
      port = openApp(plan, { desk: this.#desk, once: this.#once }).then((app) => app.port)
      this.#ports.set(name, port)
    }
    return port
  }

  async seen(nonce: string): Promise<Seen> {
    const note = await this.#desk.settled(nonce)
    return { ...note, rows: this.#store.rows('effect').filter((row) => row['nonce'] === nonce).length }
  }

  async close(): Promise<void> {
    await this.#once?.close()
  }
}

export function localHosts(): Hosts {
  return { plain: new LocalHost('plain'), guarded: new LocalHost('protected') }
}
