import { REMEMBER_MS_DEFAULT } from '../../limits.ts'
import { withLater, type DeadLetters, type NewLetter } from '../dead-letters.ts'
import type { Failure, InboxItem, InboxState, LeasedInbox, ParkParams, StoredPosition, Tries } from '../inbox.ts'
import type { KeyStore } from '../store.ts'
import {
  CONSUMER,
  headField,
  idField,
  parkedField,
  positionsField,
  SEEN,
  triesField,
  type ConsumerRow,
  type HeadRow,
  type TriesRow,
} from './fields.ts'
import { addLetters, leasedLetters } from './letters.ts'
import { HOLD_MS, MessageRecords, type Hold } from './message-records.ts'
import { consumerNo, namespaceOf } from './registry.ts'
import { changing, reading, type Draft, type Rows } from './rows.ts'

const TIMELINE_MAX = 50
/** A letter is written only while its message is held, with some room for different clocks. */
const WRITE_WITHIN_MS: number = HOLD_MS / 2

/**
 * The inbox of a store without transactions. A message's record is its leased operation, and the rows of a consumer
 * hold its letters, tries and positions.
 */
export class RowInbox implements LeasedInbox {
  readonly letters: DeadLetters
  readonly #rows: Rows
  readonly #store: Pick<KeyStore, 'leases' | 'read'>
  readonly #records = new Map<string, MessageRecords>()

  constructor(rows: Rows, store: Pick<KeyStore, 'leases' | 'read'>) {
    this.letters = leasedLetters(rows)
    this.#rows = rows
    this.#store = store
  }

  async open({ consumer, rememberForMs, lettersForMs }: Parameters<LeasedInbox['open']>[0]): Promise<void> {
    await consumerNo(this.#rows, consumer)
    this.#records.delete(consumer)
    await changing(this.#rows, consumer, async (draft) => {
      await draft.texts([])
      draft.put(CONSUMER, { rememberForMs, lettersForMs } satisfies ConsumerRow)
      draft.put(SEEN, draft.now)
    })
  }

  async look({ consumer, items, redrive = false }: Parameters<LeasedInbox['look']>[0]): Promise<InboxState[]> {
    const records = await this.records(consumer)
    return Promise.all(items.map((item) => this.#lookAt(records, consumer, item, redrive)))
  }

  trying({ consumer, ids }: Parameters<LeasedInbox['trying']>[0]): Promise<readonly Tries[]> {
    return this.#changeTries(consumer, ids, (_id, known) => ({
      attempts: (known?.attempts ?? 0) + 1,
      unfinished: (known?.unfinished ?? 0) + 1,
      timeline: known?.timeline ?? [],
    })).then((all) => all.map((of) => ({ ...of, unfinished: of.unfinished - 1 })))
  }

  async untry({ consumer, ids }: Parameters<LeasedInbox['untry']>[0]): Promise<void> {
    await this.#changeTries(consumer, ids, (_id, known) => {
      if (!known || (known.attempts <= 1 && known.timeline.length === 0)) return null
      const { attempts, unfinished, timeline } = known
      return { attempts: Math.max(0, attempts - 1), unfinished: Math.max(0, unfinished - 1), timeline }
    })
  }

  async tries({ consumer, ids }: Parameters<LeasedInbox['tries']>[0]): Promise<readonly Tries[]> {
    const found = await reading<TriesRow>(this.#rows, consumer, ids.map(triesField))
    return found.flatMap((row, i) => (row ? triesOf(ids[i] as string, row) : []))
  }

  failed({ consumer, failures }: Parameters<LeasedInbox['failed']>[0]): Promise<readonly Tries[]> {
    const by = new Map(failures.map((failure) => [failure.id, failure]))
    return this.#changeTries(consumer, [...by.keys()], (id, known, at) => {
      const { counted, error, fingerprint } = by.get(id) as Failure
      const timeline = known?.timeline ?? []
      const kept = timeline.length < TIMELINE_MAX ? timeline : timeline.filter((_, i) => i !== 1)
      const attempts = (known?.attempts ?? 0) + (counted ? 0 : 1)
      return { attempts, unfinished: 0, timeline: [...kept, { at, error, fingerprint }] }
    })
  }

  async applied({ consumer, ids }: Parameters<NonNullable<LeasedInbox['applied']>>[0]): Promise<void> {
    await this.#changeTries(consumer, ids, () => null)
  }

  async park({ consumer, letters, positions }: ParkParams): Promise<readonly string[]> {
    let running: readonly string[] = []
    await this.underHolds(consumer, letters, async (free, busy, notAfter) => {
      running = withLater(letters, busy)
      const witnessed = positions && running.length === 0 ? await this.#witnessed(consumer, positions.positions) : []
      const write = async (draft: Draft): Promise<void> => {
        const written = free.filter(({ id }) => !running.includes(id)).map(({ lock: _lock, ...letter }) => letter)
        await draft.texts(letters.map(({ id }) => triesField(id)))
        await addLetters(draft, written)
        for (const { id } of letters.filter((of) => !running.includes(of.id))) await forgetTries(draft, id)
        if (positions) await move(draft, positions.source, witnessed)
      }
      await changing(this.#rows, consumer, write, { notAfter })
    })
    return running
  }

  /** Holds the messages of letters, so that no process runs them. Gives the letters whose messages are not applied. */
  async underHolds<L extends Pick<NewLetter, 'id'>>(
    consumer: string,
    letters: readonly L[],
    work: (free: readonly L[], busy: readonly string[], notAfter: number) => Promise<void>,
  ): Promise<void> {
    const records = await this.records(consumer)
    // By the clock that is asked again at the write, and before the first hold begins.
    const { now } = await this.#rows.read(consumer, [])
    const holds = new Map<L, Hold>()
    try {
      await Promise.all(letters.map(async (letter) => void holds.set(letter, await records.hold(letter.id))))
      const of = (kind: Hold['kind']): L[] => letters.filter((letter) => holds.get(letter)?.kind === kind)
      const busy = of('busy').map(({ id }) => id)
      await work(of('held'), busy, now + WRITE_WITHIN_MS)
    } finally {
      // A hold that is not released lapses by itself.
      const release = async (hold: Hold): Promise<void> => {
        if (hold.kind === 'held') await hold.release().catch(() => {})
      }
      await Promise.all([...holds.values()].map(release))
    }
  }

  async positions({ consumer, source }: Parameters<LeasedInbox['positions']>[0]): Promise<readonly StoredPosition[]> {
    const [found] = await reading<Record<string, string>>(this.#rows, consumer, [positionsField(source)])
    return Object.entries(found ?? {}).map(([partition, next]) => ({ partition, next }))
  }

  async pass({ consumer, source, positions }: Parameters<LeasedInbox['pass']>[0]): Promise<void> {
    const witnessed = await this.#witnessed(consumer, positions)
    await changing(this.#rows, consumer, (draft) => move(draft, source, witnessed))
  }

  /** A namespace never changes its number, and `open` sets the time again. */
  async records(consumer: string): Promise<MessageRecords> {
    const known = this.#records.get(consumer)
    if (known) return known
    const [[row], namespace] = await Promise.all([
      reading<ConsumerRow>(this.#rows, consumer, [CONSUMER]),
      namespaceOf(this.#rows, consumer),
    ])
    const rememberForMs = row?.rememberForMs ?? REMEMBER_MS_DEFAULT
    const records = new MessageRecords(this.#store, { namespace, consumer, rememberForMs })
    if (row) this.#records.set(consumer, records)
    return records
  }

  async #lookAt(records: MessageRecords, consumer: string, item: InboxItem, redrive: boolean): Promise<InboxState> {
    const { id, source, aggregate, previous } = item
    const behind = aggregate === null ? [] : [parkedField(source, aggregate)]
    const [isApplied, [no, parked]] = await Promise.all([
      records.isApplied(id),
      reading<number>(this.#rows, consumer, [idField(id), ...behind]),
    ])
    if (isApplied) return 'duplicate'
    const own = no ? (await reading<HeadRow>(this.#rows, consumer, [headField(no)]))[0] : null
    // A redrive runs only letters that are still open.
    if (own && (redrive ? own.state === 'discarded' : own.state !== 'redriven')) return 'parked'
    if (!redrive && parked) return 'behind'
    return previous === null || (await this.#isPassed(records, consumer, previous)) ? 'taken' : 'early'
  }

  /** Whether the successor of this message may run: it was applied or skipped, or everything up to it was discarded. */
  async #isPassed(records: MessageRecords, consumer: string, id: string): Promise<boolean> {
    const walked = new Set<string>()
    const letterOf = async (of: string): Promise<HeadRow | null> => {
      const [no] = await reading<number>(this.#rows, consumer, [idField(of)])
      return no ? ((await reading<HeadRow>(this.#rows, consumer, [headField(no)]))[0] ?? null) : null
    }
    for (let at = id; !walked.has(at);) {
      walked.add(at)
      const [isApplied, letter] = await Promise.all([records.isApplied(at), letterOf(at)])
      if (isApplied || letter?.state === 'skipped') return true
      if (letter?.state !== 'discarded') return false
      const { previous, reason } = letter
      if (previous === null || (reason === 'orphaned' && !(await letterOf(previous)))) return true
      at = previous
    }
    return false
  }

  /** The positions whose witnesses are still known. A store that lost one has also lost what was settled with it. */
  async #witnessed(consumer: string, positions: readonly StoredPosition[]): Promise<readonly StoredPosition[]> {
    const records = await this.records(consumer)
    const isKnown = async (id: string): Promise<boolean> =>
      (await records.isApplied(id)) || (await reading<number>(this.#rows, consumer, [idField(id)]))[0] !== null
    const known = await Promise.all(
      positions.map(async ({ witnesses = [] }) => (await Promise.all(witnesses.map(isKnown))).every(Boolean)),
    )
    return positions.filter((_, i) => known[i])
  }

  /** A failover may lose tries: then a message gets more of them. A try that is refused must not be written. */
  #changeTries(
    consumer: string,
    ids: readonly string[],
    next: (id: string, known: TriesRow | null, at: number) => TriesRow | null,
  ): Promise<Tries[]> {
    if (ids.length === 0) return Promise.resolve([])
    const work = async (draft: Draft): Promise<Tries[]> => {
      const all: Tries[] = []
      const known = await draft.all<TriesRow>(ids.map(triesField))
      for (const [i, id] of ids.entries()) {
        const row = next(id, known[i] ?? null, draft.now)
        if (row || known[i]) draft.put(triesField(id), row)
        if (row) all.push(triesOf(id, row))
      }
      return all
    }
    return changing(this.#rows, consumer, work, { mayBeLost: true })
  }
}

async function forgetTries(draft: Draft, id: string): Promise<void> {
  if (await draft.get(triesField(id))) draft.put(triesField(id), null)
}

/** Never moves a position back. */
async function move(draft: Draft, source: string, positions: readonly StoredPosition[]): Promise<void> {
  if (positions.length === 0) return
  const known = (await draft.get<Record<string, string>>(positionsField(source))) ?? {}
  const moved = { ...known }
  for (const { partition, next, from } of positions) {
    const at = moved[partition]
    if (from !== undefined && BigInt(at ?? 0) < BigInt(from)) continue
    if (at === undefined || BigInt(at) < BigInt(next)) moved[partition] = next
  }
  draft.put(positionsField(source), moved)
}

function triesOf(id: string, { attempts, unfinished, timeline }: TriesRow): Tries {
  return { id, attempts: Math.max(1, attempts), unfinished, timeline }
}
