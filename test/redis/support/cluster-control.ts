import { Redis } from 'ioredis'

const POLL_MS = 50
const POLLS = 1_200
/** A failover that was asked for ends within five seconds, or not at all. */
const POLLS_OF_FAILOVER = 120

interface ClusterNode {
  readonly id: string
  readonly port: number
  readonly primary: boolean
  readonly failed: boolean
  /** The id of the primary that this node follows, or '-'. */
  readonly follows: string
  readonly slots: readonly (readonly [number, number])[]
}

/** Moves slots and roles in a cluster of 127.0.0.1, through any node that answers. */
export class ClusterControl {
  readonly #ports: readonly number[]
  readonly #clients = new Map<number, Redis>()

  constructor(ports: readonly number[]) {
    this.#ports = ports
  }

  close(): void {
    for (const client of this.#clients.values()) client.disconnect()
  }

  /** The primary of a key, and its replica if that is in order. */
  async placeOf(key: string): Promise<{ primary: ClusterNode; replica: ClusterNode | undefined; slot: number }> {
    const nodes = await this.#nodes()
    const slot = Number(await this.#any((client) => client.call('CLUSTER', 'KEYSLOT', key)))
    const primary = nodes.find(({ slots }) => slots.some(([from, to]) => slot >= from && slot <= to))
    if (!primary) throw new Error(`no node has slot ${slot}`)
    const replica = nodes.find(({ follows, failed }) => follows === primary.id && !failed)
    return { primary, replica, slot }
  }

  /** The replica begins to take over from its primary, which hands over all writes first. */
  async promote(port: number): Promise<void> {
    await this.#of(port).call('CLUSTER', 'FAILOVER')
  }

  /** Waits until every node knows that this one is a primary. A failover that found no votes in time is begun again. */
  async promoted(port: number): Promise<void> {
    let polls = 0
    await until(async () => {
      const views = await Promise.all(this.#ports.map((each) => this.#view(this.#of(each))))
      const isPrimary = (node: ClusterNode): boolean => node.port === port && node.primary && node.slots.length > 0
      if (views.every((nodes) => nodes.some(isPrimary))) return true
      if (++polls % POLLS_OF_FAILOVER === 0) await this.promote(port)
      return false
    })
  }

  pidOf(port: number): Promise<number> {
    return this.#of(port)
      .info('server')
      .then((info) => Number(/process_id:(\d+)/.exec(info)?.[1]))
  }

  /** Moves a slot with its keys to another primary, as resharding does. */
  async move(key: string): Promise<void> {
    const { source, target, to, slot } = await this.beginMove(key)
    for (let polls = 0; polls < POLLS; polls++) {
      const keys = (await source.call('CLUSTER', 'GETKEYSINSLOT', slot, 10)) as string[]
      if (keys.length === 0) break
      for (const each of keys) await source.call('MIGRATE', '127.0.0.1', to.port, each, 0, 5_000)
    }
    await target.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
    await source.call('CLUSTER', 'SETSLOT', slot, 'NODE', to.id)
  }

  /** The slot of the key can be moved now. New keys of the slot are created at the other primary. */
  async beginMove(key: string): Promise<{ source: Redis; target: Redis; to: ClusterNode; slot: number }> {
    const { primary: from, slot } = await this.placeOf(key)
    const to = (await this.#nodes()).find(({ primary, id, failed }) => primary && id !== from.id && !failed)
    if (!to) throw new Error('there is no other primary')
    const [source, target] = [this.#of(from.port), this.#of(to.port)]
    await target.call('CLUSTER', 'SETSLOT', slot, 'IMPORTING', from.id)
    await source.call('CLUSTER', 'SETSLOT', slot, 'MIGRATING', to.id)
    return { source, target, to, slot }
  }

  /** Waits until every slot is served, all nodes agree by whom, and every primary has a replica in sync. */
  async settled(): Promise<void> {
    await until(async () => {
      const nodes = await this.#nodes()
      const views = await Promise.all(this.#ports.map((port) => this.#view(this.#of(port))))
      if (new Set(views.map(ownersIn)).size !== 1) return false
      const primaries = nodes.filter(({ primary, failed, slots }) => primary && !failed && slots.length > 0)
      for (const { id, port } of primaries) {
        if (!nodes.some(({ follows, failed }) => follows === id && !failed)) return false
        const info = await this.#of(port).info('replication')
        if (!/state=online/.test(info)) return false
      }
      return /cluster_state:ok/.test(String(await this.#any((client) => client.call('CLUSTER', 'INFO'))))
    })
  }

  async #nodes(): Promise<ClusterNode[]> {
    return this.#any((client) => this.#view(client))
  }

  /** The cluster as one node sees it. */
  async #view(client: Redis): Promise<ClusterNode[]> {
    return String(await client.call('CLUSTER', 'NODES'))
      .trim()
      .split('\n')
      .map((line) => {
        const [id = '', address = '', flags = '', follows = '', , , , link, ...slots] = line.split(' ')
        return {
          id,
          port: Number(/:(\d+)@/.exec(address)?.[1]),
          primary: flags.includes('master'),
          failed: /fail|noaddr/.test(flags) || (link !== 'connected' && !flags.includes('myself')),
          follows,
          slots: slots
            .filter((range) => !range.startsWith('['))
            .map((range) => range.split('-').map(Number))
            .map(([from = 0, to = from]) => [from, to] as const),
        }
      })
  }

  async #any<T>(ask: (client: Redis) => Promise<T>): Promise<T> {
    let last: unknown
    for (const port of this.#ports) {
      try {
        return await ask(this.#of(port))
      } catch (error) {
        last = error
      }
    }
    throw last
  }

  #of(port: number): Redis {
    const known = this.#clients.get(port)
    if (known) return known
    const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: 1, enableReadyCheck: false })
    client.on('error', () => {})
    this.#clients.set(port, client)
    return client
  }
}

/** Which primary serves which slots, and who follows whom. */
function ownersIn(nodes: readonly ClusterNode[]): string {
  const of = ({ port, follows, slots }: ClusterNode): string => `${port} ${follows} ${slots.join(' ')}`
  return nodes.map(of).toSorted().join('\n')
}

export async function until(holds: () => Promise<boolean>): Promise<void> {
  for (let polls = 0; polls < POLLS; polls++) {
    if (await holds().catch(() => false)) return
    await new Promise((resolve) => setTimeout(resolve, POLL_MS))
  }
  throw new Error(`not true after ${POLLS} polls`)
}
