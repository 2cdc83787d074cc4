import { onceError } from '../errors.ts'
import type { Inbox } from '../store/inbox.ts'

/** What a source does where its topic or stream was deleted and made again. */
export type Recreated = 'stop' | 'begin'

export interface LogLife {
  /** Of the topic or stream. */
  readonly name: string
  /** Another one when it was made again. */
  readonly id: string
  readonly recreated: Recreated
}

/**
 * A topic that was made again has the name of the old one and other events at its positions. So the life a consumer reads
 * is written down beside the positions, as one of them: `name#id`. The first life keeps its partitions' plain names, any
 * later one has names of its own, because a position never goes back. Answers with what they end in.
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
