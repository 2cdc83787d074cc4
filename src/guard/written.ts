import type { Session, SqlSession } from '../store/store.ts'

/** Counts the rows an operation wrote through its transaction. Never throws, and never harms the transaction. */
export class WrittenCounter {
  /** Until the count has worked once, it runs behind a savepoint, because it may fail the transaction. */
  #works = false
  #refused = false

  /** Null: unknown, because the store does not count, or the transaction has already failed. */
  async read(session: Session<unknown>): Promise<number | null> {
    if (!session.written || !('savepoint' in session) || this.#refused) return null
    try {
      return this.#works ? await session.written() : await this.#tried(session as SqlSession<unknown>)
    } catch {
      return null
    }
  }

  async #tried(session: SqlSession<unknown>): Promise<number | null> {
    const savepoint = await session.savepoint()
    let count: number | null
    try {
      count = (await session.written?.()) ?? null
    } catch {
      await savepoint.rollback()
      this.#refused = true
      return null
    }
    await savepoint.release()
    this.#works = true
    return count
  }
}
