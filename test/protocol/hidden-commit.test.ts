import { expect, it } from 'vitest'
import { countCharges, insertCharge, outcomeOf } from '../support/charges.ts'
import { describeClient } from '../support/stores.ts'

const HIDDEN = ['select 1; commit; begin', 'select 1; commit', 'select 1; rollback; begin']

for (const client of ['pg', 'postgres.js']) {
  describeClient('a leased operation whose transaction is ended inside a text of many statements', client, (place) => {
    it.each(HIDDEN)('commit: %s', async (text) => {
      const key = `commit ${text}`
      const run = place.once().run({ scope: 'u', key, input: 1, lease: '5s' }, ({ commit }) =>
        commit(async ({ tx }) => {
          await place.bed.raw(tx, text)
          // Without a transaction each statement commits by itself.
          if (text.endsWith('begin')) await insertCharge(place, tx, key)
          return 1
        }),
      )
      expect(await outcomeOf(run)).toBe('ONCE_TX_TAKEN')
      expect(await countCharges(place, key)).toBe(0)
    })

    it.each(HIDDEN)('step.tx: %s', async (text) => {
      const key = `step ${text}`
      const run = place.once().run({ scope: 'u', key, input: 1, lease: '5s' }, async ({ step, commit }) => {
        await step.tx('hides', ({ tx }) => place.bed.raw(tx, text))
        return commit(() => 1)
      })
      expect(await outcomeOf(run)).toBe('ONCE_TX_TAKEN')
    })
  })
}
