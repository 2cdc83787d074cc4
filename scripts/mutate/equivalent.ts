import type { Mutation } from './sites.ts'

/** A change that no test can detect, and the reason. */
export interface Equivalent {
  readonly file: string
  /** The whole line, without its indentation: a change of the line takes the entry away. */
  readonly text: string
  readonly from: string
  readonly to: string
  readonly why: string
}

/** Looked at by a person. */
export const EQUIVALENT: readonly Equivalent[] = [
  {
    file: 'src/store/memory/database/rows.ts',
    text: `let lastDay = { number: Number.NaN, text: '' }`,
    from: `''`,
    to: '"Stryker was here!"',
    why: 'The number of no day is NaN, so the first call replaces the text before it is read.',
  },
  {
    file: 'src/store/sqlite/writer.ts',
    text: 'const turn = await this.take(urgent === undefined ? {} : { urgent })',
    from: 'urgent === undefined',
    to: 'false',
    why: 'take() destructures its options, so a missing and an undefined one are the same.',
  },
  {
    file: 'src/store/sqlite/migrations.ts',
    text: '`create index effectively_once_held_due on effectively_once_held (destination, due_at) where due_at is not null`,',
    from: 'is not null',
    to: 'is null',
    why: 'An index changes the speed of a query, and never its rows.',
  },
  {
    file: 'src/store/sqlite/migrations.ts',
    text: '`create index effectively_once_record_open on effectively_once_record (state) where state <> 2`,',
    from: '<>',
    to: '=',
    why: 'An index changes the speed of a query, and never its rows.',
  },
  {
    file: 'src/consumer/alike-failures.ts',
    text: `#fingerprint = ''`,
    from: `''`,
    to: '"Stryker was here!"',
    why: 'No error has this fingerprint either, and the first failure replaces it.',
  },
  {
    file: 'src/store/memory/client.ts',
    text: `where: 'pool' | 'aside' = 'pool',`,
    from: `'pool'`,
    to: '""',
    why: "Only 'aside' is compared. Every other text means the pool.",
  },
  {
    file: 'src/store/memory/redrives.ts',
    text: `const of = { label: 'letters.import', letters, deadlineMs: DEADLINE_MS_DEFAULT }`,
    from: `'letters.import'`,
    to: '""',
    why: 'The label names a step in the traces of the simulator. No fault is aimed at this step.',
  },
  {
    file: 'src/store/memory/outbox.ts',
    text: `const put = await autocommit(client, 'outbox.orphans', (work) =>`,
    from: `'outbox.orphans'`,
    to: '""',
    why: 'The label names a step in the traces of the simulator. No fault is aimed at this step.',
  },
  {
    file: 'src/once/operations.ts',
    text: `const { claim } = requestOf(settings, { scope, key, fingerprint, route: 'operator', at: 0, rerunnable: false })`,
    from: 'false',
    to: 'true',
    why: 'Only the claim of the request is used, and the claim does not say whether a handler may run again.',
  },
  {
    file: 'src/operation/deadline.ts',
    text: 'else if (done) this.#resolve?.(result)',
    from: 'this.#resolve?.(result)',
    to: 'this.#resolve(result)',
    why: 'Only of() starts what calls #settle, and of() sets #resolve first.',
  },
  {
    file: 'src/store/postgres/drizzle.ts',
    text: 'const life: Life = { lost: undefined }',
    from: '{ lost: undefined }',
    to: '{}',
    why: 'The property is only read and assigned. A missing property reads as undefined.',
  },
  {
    file: 'src/store/memory/statements/letters.ts',
    text: `const row = await database.letters.lock(id, tx, 'update', isOpen)`,
    from: `'update'`,
    to: '""',
    why: `Only 'share' is compared. Every other mode means an update.`,
  },
  {
    file: 'src/store/memory/statements/claim.ts',
    text: `if ((await database.recover.lock(id, tx, 'update')) !== undefined) database.recover.put(id, undefined, tx)`,
    from: `'update'`,
    to: '""',
    why: `Only 'share' is compared. Every other mode means an update.`,
  },
  {
    file: 'src/key/canonical-value.ts',
    text: `return typeof error === 'object' && error !== null && beyond.has(error)`,
    from: `typeof error === 'object' && error !== null`,
    to: 'true',
    why: 'A WeakSet has no value that is not an object, and says so without an error.',
  },
  {
    file: 'src/store/postgres/statements.ts',
    text: `completeLeased: completeLeasedSql(schema, 'none'),`,
    from: `'none'`,
    to: '""',
    why: 'The text gets the CTE undefineda instead of a. No other part of the statement names this CTE.',
  },
  {
    file: 'src/store/postgres/sql/complete.ts',
    text: `when exists (select 1 from \${fence}) then true else \${schema}.fail('EO001') end\``,
    from: 'true',
    to: 'false',
    why: 'Nobody reads the value of this column. Only the error of fail() matters.',
  },
  {
    file: 'src/operation/core.ts',
    text: `return { kind: 'relay', name: 'outbox', underWay: 0, isFed: false, wake, stop: () => Promise.resolve() }`,
    from: 'false',
    to: 'true',
    why: 'close() asks only consumers whether they are fed, and this object is listed among the relays.',
  },
  {
    file: 'src/consumer/redrive-executor.ts',
    text: 'if (!this.#lost) await this.#redrives.release(this.#lease).catch(() => {})',
    from: '!this.#lost',
    to: 'true',
    why: 'A release compares the token, and a lost lease has another one.',
  },
  {
    file: 'src/store/postgres/driver/pipeline.ts',
    text: `this.#tag = ''`,
    from: `''`,
    to: '"Stryker was here!"',
    why: 'The tag is read after COMMIT and after a statement with values. An empty statement is neither.',
  },
  {
    file: 'src/store/postgres/sql/outbox.ts',
    text: 'and x.state = 3 and x.reason is not null and x.seq < h.seq)`',
    from: '<',
    to: '<=',
    why: 'The row itself is in state 1, so it is never the row in state 3 with the same number.',
  },
  {
    file: 'src/store/memory/session.ts',
    text: 'if (tx?.ended) tx.check()',
    from: 'tx?.ended',
    to: 'tx.ended',
    why: 'A session begins its transaction first, and its connection keeps this transaction.',
  },
]

export function equivalentTo({ file, text, from, to }: Mutation): Equivalent | undefined {
  return EQUIVALENT.find((one) => one.file === file && one.text === text && one.from === from && one.to === to)
}
