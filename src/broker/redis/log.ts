import { newUuid } from '../../platform/uuid.ts'
import type { RedisCommands } from './client.ts'
import type { Log, LogDelivery, Turn } from '../../source/log-reading.ts'
import { freshOf, RedisDelivery } from './delivery.ts'

/** A position is a number of 63 bits: the milliseconds of the entry's id, and the number within the millisecond. */
const NUMBER_BITS = 20n
const NUMBER_MAX = (1n << NUMBER_BITS) - 1n
const POSITION_MAX = (1n << 63n) - 1n
/** The longest block of a read. A stop does not wait for it, because nothing can be lost. */
const BLOCK_MS_MAX = 500

/** ARGV: member, milliseconds. */
const HOLD = `
local holder = redis.call('GET', KEYS[1])
if holder and holder ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1`

const LEAVE = `
if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) end
return 1`

/** A key that expires. The process that holds it reads. */
export function redisTurn(redis: RedisCommands, of: { readonly key: string; readonly keptMs: number }): Turn {
  const member = newUuid()
  return {
    keptMs: of.keptMs,
    hold: async () => Number(await redis.call('EVAL', HOLD, '1', of.key, member, String(of.keptMs))) === 1,
    async leave() {
      await redis.call('EVAL', LEAVE, '1', of.key, member)
    },
  }
}

/** Reads a stream with XREAD, on its own connection. */
export function redisLog(reader: RedisCommands, of: { readonly stream: string; readonly name: string }): Log {
  const { stream, name } = of
  return {
    async read(from, { max, waitMs, signal, suspects, partition }) {
      if (!reader.isReady()) throw new Error('the connection to Redis is not ready')
      const block = String(Math.max(1, Math.ceil(Math.min(waitMs, BLOCK_MS_MAX))))
      const reply = reader.call('XREAD', 'COUNT', String(max), 'BLOCK', block, 'STREAMS', stream, idBefore(from))
      const entries = freshOf(await unlessAborted(reply, signal))
      return entries.map((entry, at): LogDelivery => {
        const offset = positionOf(entry.id)
        const position = { partition, offset: String(offset), next: String(offset + 1n) }
        return new RedisDelivery(entry, { stream, name, position, redelivered: at < suspects }) as LogDelivery
      })
    },
    close: async () => reader.disconnect(),
  }
}

/** An entry's id as a number. */
export function positionOf(id: string): bigint {
  const [ms = '', number = '0'] = id.split('-')
  const position = (BigInt(ms) << NUMBER_BITS) | BigInt(number)
  if (BigInt(number) > NUMBER_MAX || position >= POSITION_MAX) {
    throw new Error(`entry ${id} has an id that Redis did not make: singleActive cannot read past it`)
  }
  return position
}

/** XREAD returns the entries after an id. */
function idBefore(position: bigint): string {
  if (position <= 0n) return '0-0'
  return `${(position - 1n) >> NUMBER_BITS}-${(position - 1n) & NUMBER_MAX}`
}

async function unlessAborted(reply: Promise<unknown>, signal: AbortSignal): Promise<unknown> {
  let stop = (): void => {}
  const aborted = new Promise<undefined>((resolve) => {
    stop = () => resolve(undefined)
    signal.addEventListener('abort', stop)
  })
  // The reply may come after the caller has stopped waiting.
  reply.catch(() => {})
  try {
    return await Promise.race([reply, aborted])
  } finally {
    signal.removeEventListener('abort', stop)
  }
}
