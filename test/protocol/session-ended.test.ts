import { describe, expect, it } from 'vitest'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describeClients, type Place } from '../support/stores.ts'

type Once = ReturnType<Place['once']>
type Work = (tx: unknown) => Promise<unknown>

const IDLE = `select set_config('idle_in_transaction_session_timeout', '150ms', true)`
// A limit that runs already is not set anew.
const WHOLE = `select set_config('transaction_timeout', '0', true), set_config('transaction_timeout', '300ms', true)`

interface SessionEnding {
  readonly told: string
  /** The version of the server that has it. */
  readonly since?: number
  end(place: Place, tx: unknown): Promise<unknown>
}

/** How a server ends the session of a handler, and whose fault that is. */
const ENDINGS: Readonly<Record<string, SessionEnding>> = {
  'a limit on transactions, in a statement': {
    told: 'ONCE_DEADLINE',
    since: 170_000,
    async end({ bed }, tx) {
      await bed.raw(tx, WHOLE)
      return bed.raw(tx, 'select pg_sleep(5)::text as slept')
    },
  },
  'a limit on idle transactions': {
    told: 'ONCE_DEADLINE',
    async end({ bed }, tx) {
      await bed.raw(tx, IDLE)
      await later(600)
      return bed.raw(tx, 'select 1 as late')
    },
  },
  'an operator, in a statement': {
    told: 'ONCE_STORE_UNAVAILABLE',
    async end(place, tx) {
      const pid = await pidOf(place, tx)
      setTimeout(() => void terminate(place, pid), 100)
      return place.bed.raw(tx, 'select pg_sleep(5)::text as slept')
    },
  },
  'an operator, between two statements': {
    told: 'ONCE_STORE_UNAVAILABLE',
    async end(place, tx) {
      await terminate(place, await pidOf(place, tx))
      await later(200)
      return place.bed.raw(tx, 'select 1 as late')
    },
  },
}

const WAYS: Readonly<Record<string, (once: Once, key: string, work: Work) => Promise<unknown>>> = {
  run: (once, key, work) => once.run({ scope: 'u', key, input: 1 }, ({ tx }) => work(tx)),
  'a run inside a run': (once, key, work) =>
    once.run({ scope: 'u', key: `around ${key}`, input: 1 }, () =>
      once.run({ scope: 'u', key, input: 1 }, ({ tx }) => work(tx)),
    ),
  'step.tx': (once, key, work) =>
    once.run({ scope: 'u', key, input: 1, lease: '5s' }, async ({ step, commit }) => {
      await step.tx('work', ({ tx }) => work(tx))
      return commit(() => 'done')
    }),
  commit: (once, key, work) =>
    once.run({ scope: 'u', key, input: 1, lease: '5s' }, ({ commit }) => commit(({ tx }) => work(tx))),
}

describeClients('a session that the server ends under a handler', (place, client) => {
  describe.each(Object.entries(ENDINGS))('%s', (ending, { told, since, end }) => {
    it.each(Object.entries(WAYS))('%s', async (way, run) => {
      if (since && (await versionOf(place)) < since) return
      const once = place.once()
      const key = `${ending}, ${way}`
      const ended = run(once, key, async (tx) => {
        await insertCharge(place, tx, key)
        return end(place, tx)
      })
      // Not every client passes the server's word on, and a connection that is gone has none for a savepoint.
      const isHidden = client !== 'pg' || way === 'a run inside a run'
      expect(isHidden ? [told, 'ONCE_STORE_UNAVAILABLE'] : [told]).toContain(await outcomeOf(ended))
      expect(await countCharges(place, key)).toBe(0)
      expect(await run(once, key, (tx) => insertCharge(place, tx, key).then(() => 'done'))).toBe('done')
      expect(await countCharges(place, key)).toBe(1)
    })
  })
})

describeClients('an error that tells of a session of somebody else', (place) => {
  it('is the error of the handler, as it came', async () => {
    const foreign = Object.assign(new Error('terminating connection due to administrator command'), {
      code: '57P01',
      severity: 'FATAL',
      routine: 'ProcessInterrupts',
    })
    for (const [way, run] of Object.entries(WAYS)) {
      const heard = run(place.once(), `foreign, ${way}`, async (tx) => {
        await insertCharge(place, tx, 'foreign')
        throw foreign
      })
      await expect(heard).rejects.toBe(foreign)
    }
    expect(await countCharges(place, 'foreign')).toBe(0)
  })

  it('so is one that cannot be read, and the transaction is over', async () => {
    const unreadable = new Proxy(new Error('unreadable'), {
      get() {
        throw new Error('not to be read')
      },
    })
    const once = place.once()
    for (const [way, run] of Object.entries(WAYS)) {
      const heard = run(once, `unreadable, ${way}`, async (tx) => {
        await insertCharge(place, tx, 'unreadable')
        throw unreadable
      })
      expect([way, await heard.catch((error: unknown) => error === unreadable)]).toEqual([way, true])
    }
    expect(await countCharges(place, 'unreadable')).toBe(0)
    expect(await once.run({ scope: 'u', key: 'unreadable', input: 1 }, async () => 'done')).toBe('done')
  })
})

async function versionOf({ bed }: Place): Promise<number> {
  return Number((await bed.admin(`select current_setting('server_version_num') as version`))[0]?.['version'])
}

async function pidOf({ bed }: Place, tx: unknown): Promise<unknown> {
  return (await bed.raw(tx, 'select pg_backend_pid() as pid'))[0]?.['pid']
}

async function terminate({ bed }: Place, pid: unknown): Promise<void> {
  await bed.admin('select pg_terminate_backend($1::int)', [pid])
}
