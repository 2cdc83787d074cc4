/** One process of `verify`: it finishes the schedule of a dead process, then begins the next one, and may die in it. */
import { writeSync } from 'node:fs'
import { isOnceError } from '../../errors.ts'
import { instanceOf } from '../../once/instance.ts'
import { messageOf } from '../../platform/readable-error.ts'
import { Boundaries } from './boundaries.ts'
import { TOLD_FD, type Failure, type Job, type NextSchedule, type Told } from './boundary.ts'
import { ANSWER, RetryingClient } from './client.ts'
import { watchSockets } from './sockets.ts'
import { watchSqlite } from './sqlite-statements.ts'
import { isInsideStore, StoreCalls } from './store-calls.ts'
import { loadSubject, type Subject } from './subject.ts'

const CLOSE_WITHIN = '2s'

/** Synchronous: the parent has it even if this process dies now. */
function tell(told: Told): void {
  writeSync(TOLD_FD, `${JSON.stringify(told)}\n`)
}

function die(): void {
  tell({ kind: 'killing' })
  process.kill(process.pid, 'SIGKILL')
}

class Verification {
  readonly #job: Job
  readonly #subject: Subject
  readonly #boundaries: Boundaries

  constructor(job: Job, subject: Subject, boundaries: Boundaries) {
    this.#job = job
    this.#subject = subject
    this.#boundaries = boundaries
  }

  /** The retry of a schedule in which a process died. */
  async finish(schedule: number): Promise<boolean> {
    const client = this.#client(schedule, false)
    const failure = (await this.#call('act', () => this.#subject.act(client))) ?? (await this.#check())
    return this.#settle(schedule, failure, client)
  }

  async begin({ schedule, kill, doubled }: NextSchedule): Promise<boolean> {
    const client = this.#client(schedule, doubled)
    const failure =
      (await this.#call('reset', () => this.#subject.reset?.())) ??
      (await this.#call('act', async () => {
        this.#boundaries.open(kill)
        await this.#subject.act(client)
        if (this.#boundaries.last !== ANSWER) this.#boundaries.end('end of act')
        this.#boundaries.close()
      })) ??
      (await this.#check())
    return this.#settle(schedule, failure, client)
  }

  #client(schedule: number, doubled: boolean): RetryingClient {
    return new RetryingClient({ name: `${this.#job.name}-${schedule}`, doubled, boundaries: this.#boundaries })
  }

  #check(): Promise<Failure | null> {
    return this.#call('check', () => this.#subject.check())
  }

  async #call(of: Failure['of'], call: () => unknown): Promise<Failure | null> {
    try {
      await call()
      return null
    } catch (error) {
      this.#boundaries.close()
      return { of, message: messageOf(error) }
    }
  }

  #settle(schedule: number, failure: Failure | null, { keys }: RetryingClient): boolean {
    tell({ kind: 'settled', schedule, failure, keys })
    return failure === null
  }
}

// The other end closes when the parent is gone, and then nobody else ends this process.
process.stdin
  .on('close', () => process.exit(1))
  .resume()
  .unref()

async function main(job: Job): Promise<void> {
  const boundaries = new Boundaries((boundary) => tell({ kind: 'boundary', boundary }), die)
  // Before the module is loaded: it may open its connections at once.
  watchSockets(boundaries, isInsideStore)
  watchSqlite(boundaries, isInsideStore)
  const subject = await loadSubject(job.module)
  const store = new StoreCalls(instanceOf(subject.once).core.store, boundaries, (left) => tell({ kind: 'left', left }))
  await store.end(job.left)
  const verification = new Verification(job, subject, boundaries)
  const held = job.finish === null || (await verification.finish(job.finish))
  if (held && job.next) await verification.begin(job.next)
  // The schedules are settled, so a failure here says nothing about them.
  await subject.once.close({ within: CLOSE_WITHIN }).catch(() => {})
}

try {
  await main(JSON.parse(process.argv[2] ?? '') as Job)
} catch (error) {
  tell({ kind: 'refused', code: isOnceError(error) ? error.code : 'ONCE_OPTION_INVALID', message: messageOf(error) })
}
// The module may have a server or a pool that keeps the process alive.
process.exit(0)
