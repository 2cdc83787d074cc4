import { beforeAll, expect, it } from 'vitest'
import type { Inbox, InboxItem, Taken } from '../../src/store/inbox.ts'
import { postgresStore } from '../../src/store/postgres/store.ts'
import { itemOf as itemFor, letterOf, NOTHING as NOTHING_BESIDE } from '../../src/testing/contract/inbox-make.ts'
import { DEADLINE_MS } from '../../src/testing/contract/make.ts'
import type { Bench } from './driver-contract.ts'

const CONSUMER = 'inbox-works'
const NOTHING = { consumer: CONSUMER, ...NOTHING_BESIDE }

const itemOf = (message: string): InboxItem => itemFor(CONSUMER, message)

/** Who may run a message and who may set it aside, over any client. */
export function inboxWorks<Tx>(benchOf: () => Bench<Tx>): void {
  let inbox: Inbox<Tx>
  beforeAll(async () => {
    inbox = postgresStore(benchOf().driver).inbox
    await inbox.open({ consumer: CONSUMER, inboxForMs: 1e6, rememberForMs: 1e6, lettersForMs: 1e6 })
  })

  const take = (...items: InboxItem[]): Promise<Taken<Tx>> =>
    inbox.take({ consumer: CONSUMER, items, deadlineMs: DEADLINE_MS })
  const park = (...items: InboxItem[]): Promise<readonly string[]> =>
    inbox.park({
      consumer: CONSUMER,
      letters: items.map((item) => letterOf(item)),
      positions: null,
      deadlineMs: DEADLINE_MS,
    })
  const looks = (item: InboxItem): Promise<unknown> => inbox.look({ consumer: CONSUMER, items: [item] })

  /** As one that was set aside between what `take` saw and the locks it had. */
  const setAsideUnlocked = async (tx: Tx, { id, source, message }: InboxItem): Promise<void> => {
    const { driver, raw, admin } = benchOf()
    const text = `insert into effectively_once.dead_letter (consumer, id, source, message, type, state, reason, fingerprint, causes, body, headers, attempts, timeline)
      values ('${CONSUMER}', '${id}', '${source}', '${message}', 't', 1, 'failed', 'f', '[]', '', '{}', 1, '[]')`
    await (driver.single ? raw(tx, text) : admin(text))
  }

  it('sets aside what nobody runs, and leaves what somebody does', async () => {
    const [a, b] = [itemOf('a'), itemOf('b')]
    expect(await park(b)).toEqual([])
    expect([await looks(b), await looks(a)]).toEqual([['parked'], ['taken']])
    // With one connection in all it would wait for its turn.
    if (benchOf().driver.single) return
    const { session } = await take(a)
    expect(await park(a, b)).toEqual([a.id])
    expect(await session.complete(NOTHING)).toBe('committed')
    expect(await park(a)).toEqual([])
    expect([await looks(a), await inbox.letters.get({ id: a.id })]).toEqual([['duplicate'], null])
  })

  it.each([[[]], [['tried']]])('commits nothing that was set aside before its lock was had: %j', async (tried) => {
    const item = itemOf(`late ${tried.length}`)
    const { states, session } = await take(item)
    expect(states).toEqual(['taken'])
    await setAsideUnlocked(session.session.tx, item)
    const ending = session.complete({ ...NOTHING, tried: tried.map(() => item.id) })
    await expect(ending).rejects.toMatchObject({ code: 'ONCE_CONFLICT' })
    await session.rollback()
    if (!benchOf().driver.single) expect(await looks(item)).toEqual(['parked'])
  })

  it('enters what nobody runs and nobody set aside', async () => {
    const [a, b] = [itemOf('entered'), itemOf('aside')]
    await park(b)
    const enter = async (item: InboxItem, redrive = false): Promise<boolean> => {
      const { session } = await take()
      const entered = await inbox.enter(session.session, { consumer: CONSUMER, item, redrive })
      if (entered) await session.complete(NOTHING)
      else await session.rollback()
      return entered
    }
    expect([await enter(a), await enter(a), await enter(b), await enter(b, true)]).toEqual([true, false, false, true])
    if (benchOf().driver.single) return
    const c = itemOf('elsewhere')
    const { session } = await take(c)
    expect(await enter(c)).toBe(false)
    await session.rollback()
    expect(await enter(c)).toBe(true)
  })
}
