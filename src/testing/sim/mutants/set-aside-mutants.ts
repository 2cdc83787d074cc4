import type { Work } from '../../../store/memory/database/connection.ts'
import { isApplied } from '../../../store/memory/statements/applied.ts'
import { STATEMENTS } from '../../../store/memory/statements/index.ts'
import type { Statements } from '../../../store/memory/statements/index.ts'
import { insertLetter } from '../../../store/memory/statements/letters.ts'
import type { Transaction } from '../../../store/memory/database/transaction.ts'
import { statement } from './mutant.ts'
import type { Mutant } from './mutant.ts'

const FOUND_WITH_LETTERS: readonly Mutant[] = [
  statement('I9, 32', 'sets a message aside without its lock', { lockLetters: () => Promise.resolve([]) }),

  statement('I9, 32', 'sets aside by what it saw before it had the lock', parksBySight()),

  statement('I9, 32', 'does not look for letters again under the lock of what it took', {
    completeInbox: (work, params) => STATEMENTS.completeInbox(work, { ...params, taken: [] }),
  }),

  statement('I9, 32', 'enters by what it saw before it had the lock', entersBySight()),
]

/** Mutants of the rules for parking a message, hunted in worlds with many dead letters. */
export const SET_ASIDE_MUTANTS: readonly Mutant[] = FOUND_WITH_LETTERS.map((mutant) => ({
  ...mutant,
  relays: true,
  consumers: true,
  rivals: true,
}))

/** Takes the lock and writes the letter in one statement, so the snapshot is older than the lock. */
function parksBySight(): Pick<Statements, 'lockLetters' | 'parkLetters'> {
  const seen = new WeakMap<Transaction, ReadonlySet<string>>()
  return {
    async lockLetters(work, letters) {
      seen.set(work.tx, new Set(letters.flatMap(({ id }) => (isApplied(work, id) ? id : []))))
      await later(work, 'park.locks')
      return STATEMENTS.lockLetters(work, letters)
    },
    async parkLetters(work, consumer, letters) {
      for (const letter of letters) if (!seen.get(work.tx)?.has(letter.id)) await insertLetter(work, consumer, letter)
    },
  }
}

function entersBySight(): Pick<Statements, 'lockMessage' | 'enterMessage'> {
  const seen = new WeakMap<Transaction, boolean>()
  return {
    async lockMessage(work, item) {
      const own = work.database.letters.seen(item.id, work.tx)
      seen.set(work.tx, own !== undefined && own.state !== 'redriven')
      await later(work, 'enter.locks')
      return STATEMENTS.lockMessage(work, item)
    },
    async enterMessage(work, consumer, item, redrive) {
      if (!redrive && seen.get(work.tx)) return false
      return STATEMENTS.enterMessage(work, consumer, item, true)
    },
  }
}

async function later(work: Work, label: string): Promise<void> {
  const pause = work.pause(label)
  if (pause !== undefined) await pause
  work.tx.check()
}
