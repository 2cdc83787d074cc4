import { pairsOf, type RedisCommands } from './client.ts'
import { entriesOf, type RedisEntry } from './delivery.ts'

export interface RedisGroupNames {
  readonly stream: string
  readonly group: string
  /** The name of this process in the group. */
  readonly member: string
  readonly idleMs: number
}

export interface Claimed {
  readonly entries: readonly { readonly entry: RedisEntry; readonly delivered: number }[]
  /** The number of entries that were trimmed before they were settled. */
  readonly lost: number
}

/** A member that has no pending entries and was idle for a day is gone. */
const MEMBER_GONE_MS = 86_400_000

/**
 * Touches only entries that this member still has, because another member may have claimed them. JUSTID counts no
 * delivery. KEYS[1]: stream. ARGV: group, member, idle time, ids.
 */
const TOUCH = `
local kept = 0
for i = 4, #ARGV do
  if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1, ARGV[2]) > 0 then
    redis.call('XCLAIM', KEYS[1], ARGV[1], ARGV[2], 0, ARGV[i], 'IDLE', ARGV[3], 'JUSTID')
    kept = kept + 1
  end
end
return kept`

/** Removes a member only if it has no pending entries, because they would be removed with it. ARGV: group, member. */
const LEAVE = `
if #redis.call('XPENDING', KEYS[1], ARGV[1], '-', '+', 1, ARGV[2]) == 0 then
  return redis.call('XGROUP', 'DELCONSUMER', KEYS[1], ARGV[1], ARGV[2])
end
return 0`

/** The commands of one member of a consumer group. */
export class RedisGroup {
  readonly names: RedisGroupNames
  readonly #redis: RedisCommands
  #cursor = '0-0'

  constructor(redis: RedisCommands, names: RedisGroupNames) {
    this.#redis = redis
    this.names = names
  }

  /** Creates the group, which reads the stream from its beginning. */
  async make(): Promise<void> {
    const { stream, group } = this.names
    try {
      await this.#redis.call('XGROUP', 'CREATE', stream, group, '0', 'MKSTREAM')
    } catch (error) {
      if (!/BUSYGROUP/.test(String(error))) throw error
    }
    await this.#removeGone().catch(() => {})
  }

  readCommand(max: number, blockMs: number): string[] {
    const { stream, group, member } = this.names
    const how = ['GROUP', group, member, 'COUNT', String(max), ...(blockMs > 0 ? ['BLOCK', String(blockMs)] : [])]
    return ['XREADGROUP', ...how, 'STREAMS', stream, '>']
  }

  /** Claims entries that were not settled for too long, with their delivery counts. */
  async claim(max: number): Promise<Claimed> {
    const { stream, group, member, idleMs } = this.names
    const idle = String(idleMs)
    const reply = await this.#redis.call('XAUTOCLAIM', stream, group, member, idle, this.#cursor, 'COUNT', String(max))
    const [cursor, entries, lost] = reply as [unknown, unknown, unknown[] | undefined]
    this.#cursor = String(cursor)
    const counted = entriesOf(entries).map(async (entry) => ({ entry, delivered: await this.#deliveries(entry.id) }))
    return { entries: await Promise.all(counted), lost: lost?.length ?? 0 }
  }

  async ack(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#redis.call('XACK', this.names.stream, this.names.group, ...ids)
  }

  /**
   * Sets the idle time of this member's entries: 0 while they are handled, `idleMs` if any member may claim them at
   * once.
   */
  async touch(ids: readonly string[], idleMs: number): Promise<void> {
    if (ids.length === 0) return
    const { stream, group, member } = this.names
    await this.#redis.call('EVAL', TOUCH, '1', stream, group, member, String(Math.round(idleMs)), ...ids)
  }

  /** Lets other members claim unsettled entries at once. The member is removed when it has none left. */
  async leave(): Promise<void> {
    const { stream, group, member, idleMs } = this.names
    for (let turn = 0; turn < 100; turn++) {
      const reply = await this.#redis.call('XPENDING', stream, group, 'IDLE', '0', '-', '+', '1000', member)
      const fresh = (reply as [string, string, number, number][]).filter(([, , idle]) => idle < idleMs)
      if (fresh.length === 0) break
      await this.touch(
        fresh.map(([id]) => id),
        idleMs,
      )
    }
    await this.#redis.call('EVAL', LEAVE, '1', stream, group, member)
  }

  /** Ends a blocking read of this client, if the server permits it. */
  async unblock(clientId: string): Promise<void> {
    await this.#redis.call('CLIENT', 'UNBLOCK', clientId).catch(() => {})
  }

  async #deliveries(id: string): Promise<number> {
    const { stream, group } = this.names
    const reply = (await this.#redis.call('XPENDING', stream, group, id, id, '1')) as unknown[][]
    return Number(reply[0]?.[3] ?? 1)
  }

  async #removeGone(): Promise<void> {
    const { stream, group } = this.names
    const members = (await this.#redis.call('XINFO', 'CONSUMERS', stream, group)) as unknown[]
    for (const { name, idle, pending } of members.map(memberOf)) {
      if (pending === 0 && idle > MEMBER_GONE_MS) await this.#redis.call('EVAL', LEAVE, '1', stream, group, name)
    }
  }
}

function memberOf(reply: unknown): { name: string; idle: number; pending: number } {
  const of = pairsOf(reply)
  return { name: String(of.get('name')), idle: Number(of.get('idle')), pending: Number(of.get('pending')) }
}
