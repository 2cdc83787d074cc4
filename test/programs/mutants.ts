import type { PatchMutant } from '../../scripts/mutants.ts'
import type { StoreName } from './program.ts'

/** A fix taken back, and a store on which programs must notice. */
export interface ProgramMutant extends PatchMutant {
  readonly store: StoreName
}

const REMEMBERING: readonly ProgramMutant[] = [
  {
    name: 'remembers what its own transaction wrote, before the commit',
    store: 'memory',
    file: 'src/operation/settle.ts',
    find: `        if (access.afterCommit) access.afterCommit(keep)
        else keep()`,
    replace: '        keep()',
  },
  {
    name: 'remembers what a savepoint has undone',
    store: 'memory',
    file: 'src/operation/shared-transaction.ts',
    find: '    ;(this.#waiting ??= []).push({ action, inside: own?.inside, completes: false })\n',
    replace: `    const committed = this.committed.bind(this)
    this.committed = () => (committed(), action())
`,
  },
  {
    name: "sends, and remembers, what a savepoint of the user's has undone",
    store: 'sqlite',
    file: 'src/operation/shared-transaction.ts',
    find: 'return waiting?.length ? this.#ask(new Set(waiting.map(({ inside }) => inside as Inside)), events) : events',
    replace: 'return waiting ? events : events',
  },
]

const TAKING_TURNS: readonly ProgramMutant[] = [
  {
    name: 'an operation that fails leaves its rows in the commit that it shares',
    store: 'sqlite-shared',
    file: 'src/store/sqlite/commit-group.ts',
    find: '      this.#client.run(`rollback to ${SAVEPOINT}`)\n',
    replace: '',
  },
  {
    name: 'commits before its children have ended',
    store: 'sqlite',
    file: 'src/operation/deadline.ts',
    find: `    if (enclosing.pending > 0) return whenChildrenEnded(this.#clock, enclosing, () => this.#settle(done, result))
`,
    replace: '',
  },
  {
    name: 'operations inside one transaction do not take turns',
    store: 'pg',
    file: 'src/operation/turns.ts',
    find: `    if (this.#taken) await new Promise<void>((start, refuse) => this.#waiting.push({ start, refuse }))
    else this.#taken = true`,
    replace: '    this.#taken = true',
  },
  {
    name: 'what is joined to one transaction does not take turns',
    store: 'pg',
    file: 'src/operation/join.ts',
    find: 'const turns = turnsOfUsers(tx)',
    replace: 'const turns = new Turns()',
  },
  {
    name: 'messages of one batch do not take turns inside',
    store: 'memory',
    file: 'src/consumer/handler.ts',
    find: 'new Enclosing({ id: item.id, route, transaction, publisher, outer: undefined })',
    replace:
      'new Enclosing({ id: item.id, route, transaction, publisher, outer: undefined, turns: new transaction.turns.constructor() })',
  },
  {
    name: 'statements of the outer handler do not wait for what runs inside',
    store: 'sqlite',
    file: 'src/operation/enclosing.ts',
    find: 'return caller.turns?.taken ? caller.inTurn(statement) : undefined',
    replace: 'return undefined',
  },
  {
    name: 'a step is no child of its operation',
    store: 'memory',
    file: 'src/operation/step.ts',
    find: 'return this.#holder.enclosing.track(work())',
    replace: 'return work()',
  },
]

const BLAMING: readonly ProgramMutant[] = [
  {
    name: 'what SQL raises is taken for a lost connection',
    store: 'pg',
    file: 'src/store/postgres/driver/sqlstate.ts',
    find: `typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code))`,
    replace: `typeof code === 'string' && /^[0-9A-Z]{5}$/.test(code) && !/^P\\d{4}$/.test(code))`,
  },
  {
    name: 'what COMMIT refuses is taken for an error of the store',
    store: 'pg',
    file: 'src/store/postgres/errors.ts',
    find: 'if (!(error instanceof CommitRefused)) return writeError(error, schema, meaning)',
    replace: 'if (error !== null) return writeError(error, schema, meaning)',
  },
  {
    name: 'a message whose statement raises is taken for trouble of the store',
    store: 'sqlite',
    file: 'src/consumer/batch.ts',
    find: `const failed: Fate = arrivals.length === 1 ? { kind: 'failed', error: cause } : ALONE`,
    replace: `const failed: Fate = { kind: 'troubled', error: cause }`,
  },
  {
    name: 'a value that cannot be sent ends the connection of its batch',
    store: 'pg',
    file: 'src/store/postgres/batches.ts',
    find: 'if (lost || late) return',
    replace: 'if (lost || late || sqlStateOf(error) === undefined) return',
  },
  {
    name: 'one answer that cannot be written is the error of a whole batch',
    store: 'memory',
    file: 'src/operation/batch.ts',
    find: 'return time.over ? tooLate(round, winners, item, error) : without(round, winners, item, error)',
    replace: `for (const other of winners) other.reject(onceError('ONCE_STORE_UNAVAILABLE', { cause: error }))
      return NOTHING`,
  },
]

const LOCKING: readonly ProgramMutant[] = [
  {
    name: 'requests that ask for different things share a batch',
    store: 'pg',
    file: 'src/operation/batched.ts',
    find: 'if (!first || taken.every((item) => isAlike(item, first))) return taken',
    replace: 'if (!first || taken.length > 0) return taken',
  },
  {
    name: 'who waits for a lock until the deadline makes its whole batch late',
    store: 'pg',
    file: 'src/operation/batch.ts',
    find: 'return { again: [stillInTime(core, suspected, deadline), stillInTime(core, others, deadline)], crowded: false }',
    replace: `for (const late of [...suspected, ...others]) late.reject(deadline)
  return NOTHING`,
  },
  {
    name: 'a deadlock of one statement of a batch is its error',
    store: 'pg',
    file: 'src/operation/batch.ts',
    find: '  if (isTransient(core, error)) return conflicted(core, items, [culprit], error)\n',
    replace: '',
  },
  {
    name: 'a deadlock of the completing statement fails the whole batch',
    store: 'pg',
    file: 'src/operation/batch.ts',
    find: '  if (isTransient(core, error)) return conflicted(core, items, items, error)\n',
    replace: '',
  },
]

const JOINING: readonly ProgramMutant[] = [
  {
    name: 'a batched request inside an operation takes a transaction of its own',
    store: 'memory',
    file: 'src/once/once.ts',
    find: `      if (outer?.transaction) {
        const session = nestable(core.store, outer.transaction.session, 'nested')`,
    replace: `      if (outer?.transaction === undefined && outer) {
        const session = nestable(core.store, outer.transaction.session, 'nested')`,
  },
  {
    name: 'instances on one store do not find each other',
    store: 'memory',
    file: 'src/operation/store-context.ts',
    find: 'let entry = shared.get(store)',
    replace: 'let entry: Shared | undefined',
  },
  {
    name: 'an operation that has ended still encloses',
    store: 'memory',
    file: 'src/operation/enclosing.ts',
    find: 'while (at && (at.ended || at.isUsers)) at = at.outer',
    replace: 'while (at?.isUsers) at = at.outer',
  },
  {
    name: 'what outlives a joined operation counts on the transaction of the user',
    store: 'pg',
    file: 'src/operation/enclosing.ts',
    find: 'while (at && (at.ended || at.isUsers)) at = at.outer',
    replace: 'while (at?.ended) at = at.outer',
  },
]

/** Every fix of what happens where operations meet, taken back. */
export const PROGRAM_MUTANTS: readonly ProgramMutant[] = [
  ...REMEMBERING,
  ...TAKING_TURNS,
  ...BLAMING,
  ...LOCKING,
  ...JOINING,
]
