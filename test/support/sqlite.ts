import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { afterEach, describe } from 'vitest'
import type { Library } from '../../src/store/sqlite/client.ts'
import { installed } from '../../src/store/sqlite/library.ts'
import { assembleSqliteStore, type SqliteParts, type SqliteStore } from '../../src/store/sqlite/sqlite.ts'
import { libraryCalled, query } from './sqlite-data.ts'

const LIBRARIES: readonly Library[] = installed.builtin() ? ['libsql', 'node:sqlite'] : ['libsql']

export interface Lab {
  readonly library: Library
  /** A file that does not exist yet, in a folder that is removed after the test. */
  file(): string
  /** A migrated store with the table `charge (id, key, amount)`; closed after the test. */
  store(parts?: SqliteParts & { file?: string }): Promise<SqliteStore>
  /** A store that nobody migrated. */
  bare(parts?: SqliteParts & { file?: string }): SqliteStore
  /** Starts test/support/sqlite-child.ts; killed after the test. */
  child(task: string, file: string): Child
}

export interface Child {
  readonly process: ChildProcess
  /** The next line it says; undefined at its end. */
  line(): Promise<string | undefined>
  lines(): Promise<string[]>
  tell(text: string): void
  kill(): Promise<void>
}

/** A `describe` per SQLite library that this Node has. */
export function describeSqlite(name: string, define: (lab: Lab) => void): void {
  describe.each(LIBRARIES)(`${name} on %s`, (library) => {
    const endings: (() => unknown)[] = []
    afterEach(async () => {
      for (const end of endings.splice(0).toReversed()) await end()
    })
    const lab: Lab = {
      library,
      file() {
        const folder = mkdtempSync(join(tmpdir(), 'effectively-once-'))
        endings.push(() => rmSync(folder, { recursive: true, force: true }))
        return join(folder, 'shop.db')
      },
      bare({ file = lab.file(), ...parts } = {}) {
        const store = assembleSqliteStore({ file }, { library: libraryCalled(library), ...parts })
        endings.push(() => store.close())
        return store
      },
      async store(parts) {
        const store = lab.bare(parts)
        await store.schema.migrate()
        await query(
          store,
          'create table if not exists charge (id integer primary key, key text not null, amount integer)',
        )
        return store
      },
      child(task, file) {
        const child = startChild(task, file, library)
        endings.push(() => child.kill())
        return child
      },
    }
    define(lab)
  })
}

/** How often a timer of 5 ms fires, up to `enough`, while `work` is still waiting: a frozen event loop has no ticks. */
export async function ticksBefore(work: Promise<unknown>, enough: number): Promise<number> {
  let waiting = true
  const end = (): void => {
    waiting = false
  }
  work.then(end, end)
  for (let ticks = 0; ; ticks++) {
    if (!waiting || ticks === enough) return ticks
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
}

function startChild(task: string, file: string, library: Library): Child {
  const script = fileURLToPath(new URL('sqlite-child.ts', import.meta.url))
  const child = spawn(process.execPath, ['--import', 'tsx', script, task, file, library], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const reader = createInterface({ input: child.stdout })[Symbol.asyncIterator]()
  const gone = once(child, 'close')
  return {
    process: child,
    async line() {
      const next = await reader.next()
      return next.done === true ? undefined : next.value
    },
    async lines() {
      const all: string[] = []
      for (let next = await reader.next(); next.done !== true; next = await reader.next()) all.push(next.value)
      return all
    },
    tell: (text) => void child.stdin.write(`${text}\n`),
    async kill() {
      child.kill('SIGKILL')
      await gone
    },
  }
}
