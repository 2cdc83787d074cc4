import { onceError } from '../errors.ts'
import type { Inbox } from '../store/inbox.ts'

/** What a source does if its topic or stream was deleted and created again. */
export type Recreated = 'stop' | 'begin'

export interface LogLife {
  /** The name of the topic or stream. */
  readonly name: string
  /** A recreated topic or stream has another id. */
  readonly id: string
  readonly recreated: Recreated
}

/**
 * A recreated topic has the old name, but other events at its positions. So the database stores which life of the topic
 * a consumer reads, as a position named `name#id`. The first life uses the plain names of its partitions. Each later
 * life adds a suffix to these names, because a position never moves back. Returns the suffix.
 */
export async function lifeOf(
  inbox: Pick<Inbox<unknown>, 'positions' | 'pass'>,
  reader: { readonly consumer: string; readonly source: string },
  { name, id, recreated }: LogLife,
): Promise<string> {
  const life = `${name}#${id}`
  const lives = (await inbox.positions(reader)).filter(({ partition }) => partition.startsWith(`${name}#`))
  const known = lives.find(({ partition }) => partition === life)
  const isFirst = known ? known.next === '0' : lives.length === 0
  if (!known && !isFirst && recreated === 'stop') {
    const detail = `'${name}' was deleted and recreated: consumer '${reader.consumer}' would skip its first events. Set recreated: 'begin' to read them`
    throw onceError('ONCE_SOURCE_RECREATED', { detail })
  }
  if (!known) await inbox.pass({ ...reader, positions: [{ partition: life, next: isFirst ? '0' : '1' }] })
  return isFirst ? '' : `@${id}`
}
