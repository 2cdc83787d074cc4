import type { DeadLetters, LetterFilter } from '../dead-letters.ts'
import { partsOf, storedName } from './names.ts'
import type { Own } from './own.ts'

/** Dead letters as one namespace sees them: those of its own consumers, under the names the program gave them. */
export function namespacedLetters(letters: DeadLetters, own: Own): DeadLetters {
  return {
    list: async ({ filter, ...page }) =>
      (await letters.list({ filter: ownFilter(filter, await own.look()), ...page })).map(bare),
    async get(params) {
      const [no, letter] = [await own.look(), await letters.get(params)]
      return letter !== null && partsOf(letter.consumer).no === no ? bare(letter) : null
    },
    async count({ filter }) {
      const counts = await letters.count({ filter: ownFilter(filter, await own.look()) })
      return { ...counts, groups: counts.groups.map(bare) }
    },
    discard: async ({ filter, limit }) => letters.discard({ filter: ownFilter(filter, await own.look()), limit }),
  }
}

/** Limits a filter to one namespace. */
export function ownFilter<F extends LetterFilter>(filter: F, no: number): F {
  const { consumer } = filter
  return { ...filter, namespace: no, ...(consumer === undefined ? {} : { consumer: storedName(no, consumer) }) }
}

export function bare<T extends { readonly consumer: string }>(of: T): T {
  const { name } = partsOf(of.consumer)
  return name === of.consumer ? of : { ...of, consumer: name }
}
