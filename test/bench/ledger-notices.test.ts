import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { growths, type Entries } from '../../bench/ledger/entry.ts'
import { measureEntries, type LedgerOptions } from '../../bench/ledger/measure.ts'
import { startAlone } from '../../scripts/servers/index.ts'

/** As much as a whole operation, in the processor's own time: a machine with other work lets the clock run on without us. */
const SPIN_US = 400

/** WAL is counted for the whole server: nobody else may write to this one. */
const server = await startAlone('postgres')

/** What the ledger would say if each operation did something more. */
describe.skipIf('missing' in server)('the ledger notices', () => {
  let kept: Entries
  const measure = (burden?: LedgerOptions['burden']): Promise<Entries> =>
    measureEntries(
      { url: 'missing' in server ? '' : server.url, isOurs: true },
      { rounds: 3, only: ['atomicNoEvent'], ...(burden && { burden }) },
    )
  const grown = async (burden: NonNullable<LedgerOptions['burden']>): Promise<string[]> =>
    growths(kept, await measure(burden)).map(({ what }) => what)

  beforeAll(async () => {
    kept = await measure()
  })
  afterAll(() => ('missing' in server ? undefined : server.stop()))

  it('one statement more', async () => {
    const found = await grown(async (operate, { plain }) => {
      await plain.query('select 1')
      return operate()
    })
    expect(found).toEqual(expect.arrayContaining(['statements', 'trips']))
    expect(found).not.toContain('rows')
  })

  it('one row more', async () => {
    const found = await grown(async (operate, { plain }) => {
      await plain.query(`insert into charge (account, amount) values ('more', 1)`)
      return operate()
    })
    expect(found).toEqual(expect.arrayContaining(['rows', 'walBytes']))
  })

  it('longer WAL in as many rows', async () => {
    const found = await grown(async (operate, { plain }) => {
      await plain.query(`select pg_logical_emit_message(false, 'bench', repeat('x', 200))`)
      return operate()
    })
    expect(found).toContain('walBytes')
    expect(found).not.toContain('rows')
  })

  it('more of the processor', { timeout: 120_000 }, async () => {
    const found = await grown((operate) => {
      const from = process.cpuUsage()
      while (process.cpuUsage(from).user < SPIN_US);
      return operate()
    })
    expect(found).toContain('cpuToBare')
    expect(found).not.toContain('statements')
  })
})
