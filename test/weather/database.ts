import { setTimeout as sleep } from 'node:timers/promises'
import { untilReady } from '../../scripts/servers/process.ts'
import { Cluster } from './cluster.ts'

const FOLLOWS_MS = 30_000
/**
 * How long the standby receives nothing before an asynchronous promotion. The promotion drops every commit of that
 * time.
 */
const LAG_MS = 1_500
/** The time until the server has received the signal to stop. */
const TOLD_MS = 300

/**
 * The rows that an asynchronous promotion dropped, by event. The old server had them, and the promoted one does not.
 */
export interface Dropped {
  readonly orders: readonly string[]
  readonly effects: readonly string[]
}

/** A server and its standby. After a promotion, `moved` is called with the port of the new server. */
export class Database {
  #primary: Cluster
  #standby: Cluster
  readonly #moved: (port: number) => void

  private constructor(primary: Cluster, standby: Cluster, moved: (port: number) => void) {
    this.#primary = primary
    this.#standby = standby
    this.#moved = moved
  }

  static async start(moved: (port: number) => void): Promise<Database> {
    const primary = await Cluster.create()
    try {
      return new Database(primary, await primary.standby(), moved)
    } catch (error) {
      await primary.remove()
      throw error
    }
  }

  get primary(): Cluster {
    return this.#primary
  }

  async restartAtOnce(): Promise<void> {
    await this.#primary.stopAtOnce()
    await this.#primary.startAgain()
  }

  async checkpoint(): Promise<void> {
    await this.#primary.rows('checkpoint')
  }

  /**
   * Kills a backend, which makes the server end every session and recover. Returns whether there was a backend to kill.
   */
  async killBackend(): Promise<boolean> {
    const [found] = await this.#primary.rows<{ pid: number }>(
      `select pid from pg_stat_activity where backend_type = 'client backend' and application_name <> 'weather'
        order by state = 'active' desc, random() limit 1`,
    )
    if (!found) return false
    process.kill(found.pid, 'SIGKILL')
    await sleep(200)
    await this.#primary.ready()
    return true
  }

  /** Promotes the standby without losing an acknowledged commit. */
  async promoteSynchronous(): Promise<void> {
    await this.#follows('streaming')
    await this.#primary.rows(`alter system set synchronous_standby_names = '*'`)
    await this.#primary.rows('select pg_reload_conf()')
    await this.#follows('sync')
    await sleep(1_000)
    await this.#primary.stopAtOnce()
    await this.#standby.promote()
    await this.#change()
  }

  /** Promotes the standby, and drops every commit that the standby has not received: those made during `meanwhile`. */
  async promoteAsynchronous(meanwhile: () => Promise<unknown> = () => sleep(LAG_MS)): Promise<Dropped> {
    await this.#follows('streaming')
    const [sender] = await this.#primary.rows<{ pid: number }>('select pid from pg_stat_replication limit 1')
    if (sender) process.kill(sender.pid, 'SIGSTOP')
    await meanwhile()
    const stopping = this.#primary.stopAtOnce()
    await sleep(TOLD_MS)
    // The resumed WAL sender ends at once and sends nothing more.
    if (sender) resume(sender.pid)
    await stopping
    await this.#standby.promote()
    const kept = await written(this.#standby)
    const old = this.#primary
    return this.#change(async () => {
      await old.startAgain()
      const before = await written(old)
      const gone = (from: Set<string>, to: Set<string>): string[] => [...from].filter((id) => !to.has(id))
      return { orders: gone(before.orders, kept.orders), effects: gone(before.effects, kept.effects) }
    })
  }

  async stop(): Promise<void> {
    await Promise.all([this.#standby.remove(), this.#primary.remove()])
  }

  /** Switches to the promoted server. Reads and removes the old one, and creates a new standby. */
  async #change<T>(look?: () => Promise<T>): Promise<T> {
    const old = this.#primary
    this.#primary = this.#standby
    this.#moved(this.#primary.port)
    try {
      return (await look?.()) as T
    } finally {
      await old.remove()
      this.#standby = await this.#primary.standby()
    }
  }

  async #follows(how: 'streaming' | 'sync'): Promise<void> {
    const look = async (): Promise<void> => {
      const [row] = await this.#primary.rows<{ state: string; sync: string }>(
        'select state, sync_state as sync from pg_stat_replication limit 1',
      )
      if (row?.state !== 'streaming' || (how === 'sync' && row.sync !== 'sync')) throw new Error(`not ${how} yet`)
    }
    await untilReady(look, { timeoutMs: FOLLOWS_MS, ended: () => undefined })
  }
}

async function written(cluster: Cluster): Promise<{ orders: Set<string>; effects: Set<string> }> {
  const ids = async (table: string): Promise<Set<string>> =>
    new Set((await cluster.rows<{ event: string }>(`select event from ${table}`)).map(({ event }) => event))
  return { orders: await ids('orders'), effects: await ids('effects') }
}

function resume(pid: number): void {
  try {
    process.kill(pid, 'SIGCONT')
  } catch {
    // The process has already ended.
  }
}
