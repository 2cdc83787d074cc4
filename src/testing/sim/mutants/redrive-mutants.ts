import { messageIdentity } from '../../../consumer/inbox/identity.ts'
import type { Work } from '../../../store/memory/database/connection.ts'
import { obstacle } from '../../../store/memory/statements/inbox.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import { itemsOf } from '../../../store/memory/statements/redrive.ts'
import type { InboxItem } from '../../../store/inbox.ts'
import { statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const FOUND_WITH_REDRIVES: readonly Mutant[] = [
  statement('28, 32', 'a redrive gives its messages new ids', {
    takeMessages: (work, consumer, items, redrive) =>
      STATEMENTS.takeMessages(work, consumer, redrive ? items.map((item) => renamed(consumer, item)) : items, redrive),
  }),

  statement('I9, 32', 'a redrive does not ask the inbox', {
    async takeMessages(work, consumer, items, redrive) {
      if (!redrive) return STATEMENTS.takeMessages(work, consumer, items, redrive)
      return items.map((item) => obstacle(work, consumer, item, redrive) ?? 'taken')
    },
  }),

  statement('I23', 'a letter is settled before its effect commits', {
    async beatRedrive(work, params) {
      const beat = await STATEMENTS.beatRedrive(work, params)
      if (beat !== null) await settleAhead(work, params.redrive, params.starting)
      return beat
    },
    settleRedrive: () => Promise.resolve(true),
  }),

  statement('I23', 'a letter that fails again is thrown away', {
    async decideRedrive(work, params) {
      const held = await STATEMENTS.decideRedrive(work, params)
      const failed = params.decisions.filter(({ outcome }) => outcome === 'failed').map(({ ord }) => ord)
      for (const { letter } of itemsOf(work, params.redrive).filter(({ ord }) => held && failed.includes(ord))) {
        if (await work.database.letters.lock(letter, work.tx, 'update'))
          work.database.letters.put(letter, undefined, work.tx)
      }
      return held
    },
  }),

  statement('44', 'behind a discarded letter everything passes, whatever is parked before it', {
    takeMessages: (work, consumer, items, redrive) =>
      STATEMENTS.takeMessages(
        work,
        consumer,
        items.map((item) => (isDiscarded(work, item.previous) ? { ...item, previous: null } : item)),
        redrive,
      ),
  }),

  statement('I24', 'discards without an entry in the audit', { writeAudit: () => Promise.resolve() }),
]

/** Mutants of redrives, hunted in worlds with redrives. */
export const REDRIVE_MUTANTS: readonly Mutant[] = FOUND_WITH_REDRIVES.map((mutant) => ({
  ...mutant,
  relays: true,
  consumers: true,
  redrives: true,
}))

const FOUND_WITH_READERS: readonly Mutant[] = [
  statement('I19', 'writes consumer, source and message one after the other, without their lengths', {
    takeMessages: (work, consumer, items, redrive) =>
      STATEMENTS.takeMessages(
        work,
        consumer,
        items.map((item) => run(consumer, item)),
        redrive,
      ),
    lookAt: (work, consumer, items, redrive) =>
      STATEMENTS.lookAt(
        work,
        consumer,
        items.map((item) => run(consumer, item)),
        redrive,
      ),
    enterMessage: (work, consumer, item, redrive) =>
      STATEMENTS.enterMessage(work, consumer, run(consumer, item), redrive),
  }),
]

/** Mutants of the identity of messages, hunted in worlds with two consumers of similar names. */
export const READER_MUTANTS: readonly Mutant[] = FOUND_WITH_READERS.map((mutant) => ({
  ...mutant,
  relays: true,
  consumers: true,
  readers: true,
}))

function isDiscarded({ database, tx }: Work, id: string | null): boolean {
  return id !== null && database.letters.seen(id, tx)?.state === 'discarded'
}

function renamed(consumer: string, item: InboxItem): InboxItem {
  const { source, message } = item
  return { ...item, ...messageIdentity({ consumer, source, message: `${message}:r1` }) }
}

function run(consumer: string, item: InboxItem): InboxItem {
  const { source, message } = item
  return { ...item, ...messageIdentity({ consumer: `${consumer}${source}${message}`, source: '', message: '' }) }
}

async function settleAhead(work: Work, redrive: number, ords: readonly number[]): Promise<void> {
  const { database, tx } = work
  for (const { ord, letter } of itemsOf(work, redrive)) {
    const row = ords.includes(ord) ? await database.letters.lock(letter, tx, 'update') : undefined
    if (row !== undefined) database.letters.put(letter, { ...row, state: 'redriven' }, tx)
  }
}
