import { beforeAll, expect, it } from 'vitest'
import { memoryBroker } from '../../src/testing/source-contract/memory-broker.ts'
import type { Signal } from '../../src/index.ts'
import { describeAll, type Place } from '../support/stores.ts'
import { until } from './world.ts'

const GOOD = 19

/** How the handler of the bad message fails: now, or at COMMIT. */
const WAYS = ['raised', 'deferred', 'looks lost', 'looks ours', 'conflicts', 'conflicts at COMMIT'] as const
type Way = (typeof WAYS)[number]

const RAISED: Readonly<Record<Way, { readonly state: string; readonly late: boolean }>> = {
  raised: { state: 'P0001', late: false },
  deferred: { state: 'P0001', late: true },
  'looks lost': { state: '57P01', late: true },
  'looks ours': { state: 'EO001', late: true },
  conflicts: { state: '40001', late: false },
  'conflicts at COMMIT': { state: '40001', late: true },
}

const FUNCTIONS = [
  'create table books (id text, state text not null)',
  'create table late_books (id text, state text not null)',
  `create function raise_state() returns trigger language plpgsql as $$
begin if new.state <> 'fine' then raise exception using errcode = new.state, message = 'the books do not balance'; end if; return null; end $$`,
  'create trigger raises after insert on books for each row execute function raise_state()',
  `create constraint trigger raises after insert on late_books deferrable initially deferred
for each row execute function raise_state()`,
]

const SQLITE = [
  'create table entries (id text primary key)',
  `create table books (id text, state text not null)`,
  `create trigger raises before insert on books when new.state <> 'fine' begin select raise(abort, 'the books do not balance'); end`,
  `create table late_books (id text, state text not null references entries (id) deferrable initially deferred)`,
  `insert into entries values ('fine')`,
]

describeAll('a message that its own SQL refuses', (place, client) => {
  beforeAll(async () => {
    for (const statement of client === 'SQLite' ? SQLITE : FUNCTIONS) await place.bed.admin(statement)
  })

  it.each(WAYS)('%s: it is parked, and the others do not wait for it', async (way) => {
    const { state, late } = RAISED[way]
    for (const table of ['books', 'late_books']) await place.bed.admin(`delete from ${table}`)
    const signals: Signal[] = []
    const once = place.once({ observe: (signal: Signal) => void signals.push(signal) })
    const broker = memoryBroker()
    for (let n = 0; n <= GOOD; n++) broker.publish({ id: `${way} ${n}`, aggregate: `a${n}`, data: { n } })
    const consumer = once.consumer(`books ${way}`, { from: broker.source, attempts: 3 }, {
      'step.made': async (event: { id: string; data: { n: number } }, { tx }: { tx: unknown }) => {
        const bad = event.data.n === 7
        const table = bad && late ? 'late_books' : 'books'
        await place.bed.raw(tx, `insert into ${table} (id, state) values ($1, $2)`, [event.id, bad ? state : 'fine'])
      },
    } as never)
    await consumer.start()
    await until(() => broker.left === 0)
    await consumer.stop()
    expect(await rows(place)).toBe(GOOD)
    expect(broker.rejected).toEqual([`${way} 7`])
    const letters = await once.deadLetters.list({ consumer: `books ${way}` })
    expect(letters.map(({ message, reason, attempts }) => [message, reason, attempts])).toEqual([
      [`${way} 7`, 'failed', 3],
    ])
    expect(signals.filter(({ kind }) => kind === 'troubled')).toEqual([])
    await consumer.stop()
  })
})

async function rows({ bed }: Place): Promise<number> {
  const [row] = await bed.admin('select count(*) as n from books')
  return Number(row!['n'])
}
