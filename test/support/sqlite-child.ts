/** What other processes do to a file while a test watches: `sqlite-child.ts <task> <file> <library>`. */
import { once } from 'node:events'
import { createInterface } from 'node:readline'
import { sleep, systemClock } from '../../src/platform/clock.ts'
import type { Library, OpenFile } from '../../src/store/sqlite/client.ts'
import { assembleSqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { begin, charge, libraryCalled, makeClaim } from './sqlite-data.ts'

const [, , task = '', file = '', library = 'libsql'] = process.argv
const find = libraryCalled(library as Library)
const input = createInterface({ input: process.stdin })

/** Dies like a power cut, right before or right after the commit reaches the file. */
function dyingAt(moment: 'before' | 'after'): () => Promise<OpenFile> {
  return async () => {
    const open = await find()
    return (path) => {
      const client = open(path)
      return {
        ...client,
        run(sql, values) {
          if (sql !== 'commit') return client.run(sql, values)
          if (moment === 'after') client.run(sql, values)
          process.kill(process.pid, 'SIGKILL')
          return 0
        },
      }
    }
  }
}

const store = assembleSqliteStore(
  { file },
  { library: task === 'die before commit' ? dyingAt('before') : task === 'die after commit' ? dyingAt('after') : find },
)

const tasks: Record<string, () => Promise<void>> = {
  async migrate() {
    say('ready')
    await once(input, 'line')
    say(JSON.stringify(await store.schema.migrate()))
  },
  /** Holds the write lock until it is told to let go, or killed. */
  async hold() {
    const claim = makeClaim({ id: 'held' })
    const { session, claimed } = await begin(store, claim)
    await session.tx.query('insert into charge (key) values ($1)', ['held'])
    say('holding')
    await once(input, 'line')
    await session.complete({
      claim,
      claimed,
      answer: { status: 200, headers: [], body: null, kept: true },
      events: [],
      fenced: false,
    })
    say('committed')
  },
  /** Commits for ever, and says so after each commit. */
  async work() {
    for (let n = 0; ; n++) {
      await charge(store, makeClaim({ id: `key-${n}` }))
      say(`key-${n}`)
    }
  },
  /** Tries the same keys as somebody else; says which it won. */
  async contend() {
    say('ready')
    await once(input, 'line')
    for (let n = 0; n < 200; n++) {
      const claim = makeClaim({ id: `key-${n}` })
      const { session, claimed } = await store.begin({ claim, deadlineMs: 5_000 })
      if (claimed) {
        await session.tx.query('insert into charge (key) values ($1)', [claim.id])
        await sleep(systemClock, 1)
        const answer = { status: 200, headers: [], body: null, kept: true }
        await session.complete({ claim, claimed, answer, events: [], fenced: false })
        say(claim.id)
        // The lock of a file is not fair: a process that asks again at once may win them all.
        await sleep(systemClock, 5)
      } else await session.rollback()
    }
  },
  async 'die before commit'() {
    await charge(store, makeClaim({ id: 'doomed' }))
  },
  async 'die after commit'() {
    await charge(store, makeClaim({ id: 'doomed' }))
  },
}

function say(text: string): void {
  process.stdout.write(`${text}\n`)
}

await tasks[task]?.()
await store.close()
input.close()
