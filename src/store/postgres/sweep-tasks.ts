import { isOnceError, onceError, type OnceError } from '../../errors.ts'
import { storeError } from './errors.ts'
import { isConnectionLost } from './driver/sqlstate.ts'

/** The tasks of one sweep. If one fails, the others still run. */
export class SweepTasks {
  readonly #schema: string
  readonly #failed: OnceError[] = []
  readonly #late: string[] = []

  constructor(schema: string) {
    this.#schema = schema
  }

  async do<T>(otherwise: T, task: () => Promise<T>): Promise<T> {
    try {
      return await task()
    } catch (error) {
      // Without a connection, the other tasks would fail, too.
      if (!isOnceError(error) && isConnectionLost(error)) throw error
      this.#failed.push(storeError(error, this.#schema))
      return otherwise
    }
  }

  /** Records a task that only the owner of the tables can do, and that is overdue. */
  late(what: string): void {
    this.#late.push(what)
  }

  get troubles(): readonly OnceError[] {
    if (this.#late.length === 0) return this.#failed
    const detail = `This role may not change the tables of schema ${this.#schema}: ${this.#late.join('; ')}. Let their owner run: npx effectively-once sweep`
    return [...this.#failed, onceError('ONCE_RIGHTS_MISSING', { detail })]
  }
}
