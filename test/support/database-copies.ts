import { randomBytes } from 'node:crypto'
import pg from 'pg'
import { inject } from 'vitest'

/** Copies of databases. Each stands for a server: one that was promoted has what the other had at an earlier moment. */
export class DatabaseCopies {
  readonly #url = (inject('servers').postgres as { url: string }).url
  readonly #admin = new pg.Pool({ connectionString: this.#url, max: 1 })
  readonly #names = new Set<string>()

  /** Nobody may be connected to the original. */
  async copyOf(name = 'template1'): Promise<string> {
    const copy = `test_${randomBytes(8).toString('hex')}`
    this.#names.add(copy)
    await this.#admin.query(`create database ${copy} template ${name}`)
    return copy
  }

  urlOf(name: string): string {
    const url = new URL(this.#url)
    url.pathname = `/${name}`
    return url.href
  }

  async drop(name: string): Promise<void> {
    await this.#admin.query(`drop database if exists ${name} with (force)`)
    this.#names.delete(name)
  }

  async close(): Promise<void> {
    for (const name of this.#names) await this.drop(name)
    await this.#admin.end()
  }
}
