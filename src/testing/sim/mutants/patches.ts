import { LIMIT_PATCHES } from './limit-patches.ts'
import type { Wanted } from './mutant.ts'
import { TIER_PATCHES } from './tier-patches.ts'
import { UNDO_PATCHES } from './undo-patches.ts'

/** A mutant of the source text: one place in one file, and its replacement. */
export interface Patch extends Wanted {
  readonly name: string
  /** The invariant that the patch violates. */
  readonly of: string
  readonly file: string
  readonly find: string
  readonly replace: string
}

const FOUND_WHERE_OPERATIONS_MEET: readonly Patch[] = [
  {
    of: 'I2',
    name: 'remembers what its own transaction wrote, before the commit',
    file: 'src/operation/settle.ts',
    find: `        if (access.afterCommit) access.afterCommit(keep)
        else keep()`,
    replace: '        keep()',
  },
  {
    of: 'I26',
    name: 'commits before its children have ended',
    file: 'src/operation/deadline.ts',
    find: `    if (enclosing.pending > 0) return whenChildrenEnded(this.#clock, enclosing, () => this.#settle(done, result))
`,
    replace: '',
  },
  {
    of: 'I25',
    name: 'operations inside one transaction do not take turns',
    file: 'src/operation/turns.ts',
    find: `    if (this.#taken) await new Promise<void>((start, refuse) => this.#waiting.push({ start, refuse }))
    else this.#taken = true`,
    replace: '    this.#taken = true',
  },
  {
    of: 'I25',
    name: 'what is joined to one transaction does not take turns',
    file: 'src/operation/join.ts',
    find: 'const turns = turnsOfUsers(tx)',
    replace: 'const turns = new Turns()',
  },
  {
    of: 'I25',
    name: 'statements of the outer handler do not wait for what runs inside',
    file: 'src/operation/enclosing.ts',
    find: 'return caller.turns?.taken ? caller.inTurn(statement) : undefined',
    replace: 'return undefined',
  },
  {
    of: 'I25',
    name: 'a batched request inside an operation takes a transaction of its own',
    file: 'src/once/once.ts',
    find: `      if (outer?.transaction) {
        const session = nestable(core.store, outer.transaction.session, 'nested')`,
    replace: `      if (outer?.transaction === undefined && outer) {
        const session = nestable(core.store, outer.transaction.session, 'nested')`,
  },
  {
    of: 'I25',
    name: 'instances on one store do not find each other',
    file: 'src/operation/store-context.ts',
    find: 'let entry = shared.get(store)',
    replace: 'let entry: Shared | undefined',
  },
  {
    of: 'I28',
    name: 'an operation that has ended still encloses',
    file: 'src/operation/enclosing.ts',
    find: 'for (; at && (at.ended || at.isUsers); at = at.outer) if (at.isCut)',
    replace: 'for (; at?.isUsers; at = at.outer) if (at.isCut)',
  },
  {
    of: 'I29',
    name: 'a step is no child of its operation',
    file: 'src/operation/step.ts',
    find: 'return this.#holder.enclosing.track(work())',
    replace: 'return work()',
  },
  {
    of: 'I27',
    name: 'a leased operation may take for ever',
    file: 'src/operation/leased.ts',
    find: 'new TimeLimit(core.clock, request.endsWithinMs, signal, enclosing, core.running)',
    replace: 'new TimeLimit(core.clock, 1e9, signal, enclosing, core.running)',
  },
  {
    of: 'I27',
    name: 'waits for a heartbeat that is never answered',
    file: 'src/operation/lease-heartbeat.ts',
    find: '        sleep(this.#clock, withinMs + HEARTBEAT_SLACK_MS, late.signal),\n',
    replace: '',
  },
]

const FOUND_WITH_CONSUMERS: readonly Patch[] = [
  {
    of: 'I25',
    name: 'messages of one batch do not take turns inside',
    file: 'src/consumer/handler.ts',
    find: 'new Enclosing({ id: item.id, route, transaction, publisher, outer: undefined })',
    replace:
      'new Enclosing({ id: item.id, route, transaction, publisher, outer: undefined, turns: new transaction.turns.constructor() })',
  },
]

const FOUND_WITH_BATCHES: readonly Patch[] = [
  {
    of: 'I28',
    name: 'what only COMMIT refuses is the error of a whole batch',
    file: 'src/operation/batch.ts',
    find: 'if (items.length > 1 && (crowded || !isOnceError(error))) {',
    replace: 'if (items.length > 1 && crowded) {',
  },
  {
    of: 'I28',
    name: 'what a trigger raises at COMMIT is taken for a lost reply',
    file: 'src/store/memory/database/failure.ts',
    find: `return error instanceof ServerError && HANDLERS_OWN.test(error.code) ? error : storeFailure(error)`,
    replace: `return onceError('ONCE_COMMIT_UNKNOWN', { cause: error })`,
  },
  {
    of: 'I28',
    name: 'a conflict of the completing statement is not run again',
    file: 'src/operation/batch.ts',
    find: '  if (isTransient(core, error)) return conflicted(core, items, items, error)\n',
    replace: '',
  },
  {
    of: 'I28',
    name: 'one statement that hangs takes its batch with it',
    file: 'src/operation/batch.ts',
    find: `    if (effects.kind === 'ended') return ended(round, winners, culprit, effects.late, error)\n`,
    replace: `    if (effects.kind === 'ended') {
      for (const item of winners) item.reject(error)
      return NOTHING
    }\n`,
  },
  {
    of: 'I28',
    name: 'one answer that cannot be written is the error of a whole batch',
    file: 'src/operation/batch.ts',
    find: 'return time.over ? tooLate(round, winners, item, error) : without(round, winners, item, error)',
    replace: `for (const other of winners) other.reject(onceError('ONCE_STORE_UNAVAILABLE', { cause: error }))
      return NOTHING`,
  },
  {
    of: 'I28',
    name: 'the others of a batch get the error of the one that raised',
    file: 'src/operation/batch.ts',
    find: `    return culprit && !batches.isCrowded?.(error)
      ? without(round, winners, culprit, error)
      : failed(round, winners, error)`,
    replace: `    for (const item of winners) item.reject(error)
    return NOTHING`,
  },
]

const FOUND_WITH_FAILING_MESSAGES: readonly Patch[] = [
  {
    of: 'I21',
    name: 'a message whose statement raises is taken for trouble of the store',
    file: 'src/consumer/batch.ts',
    find: `const failed: Fate = arrivals.length === 1 ? { kind: 'failed', error: cause } : ALONE`,
    replace: `const failed: Fate = { kind: 'troubled', error: cause }`,
  },
]

const FOUND_WHERE_TIME_PASSES: readonly Patch[] = [
  {
    of: 'I9',
    name: 'a rest that ends between two looks at the clock is waited for by nobody',
    file: 'src/consumer/loop.ts',
    find: 'const next = this.#rest.until > now ?',
    replace: 'const next = this.#rest.until > this.#now ?',
  },
]

const FOUND_WITH_SERVICES: readonly Patch[] = [
  {
    of: 'I30',
    name: 'every service publishes to the shards of the first',
    file: 'src/outbox/publisher.ts',
    find: 'shard: shardOf(aggregateId, namespace),',
    replace: 'shard: shardOf(aggregateId),',
  },
  {
    of: 'I30',
    name: 'consumers and destinations of two services are one when they have one name',
    file: 'src/store/namespaced/names.ts',
    find: 'return no === 0 ? name : `${no}${SEPARATOR}${name}`',
    replace: 'return name',
  },
]

const FOUND_WITH_A_NEIGHBOUR: readonly Patch[] = [
  {
    of: 'I30',
    name: 'locks ignore the schema',
    file: 'src/store/memory/database/database.ts',
    find: 'return this.schema === 0 ? lock : `${this.schema} ${lock}`',
    replace: 'return lock',
  },
]

const FOUND_IN_BAD_WEATHER: readonly Patch[] = [
  {
    of: 'I7',
    name: 'a verdict that comes after the end of its call counts',
    file: 'src/outbox/call.ts',
    find: 'if (!this.#open || !item || !this.#left.delete(item)) return',
    replace: 'if (!item || !this.#left.delete(item)) return',
  },
  {
    of: 'I7',
    name: 'a second verdict of one event counts, too',
    file: 'src/outbox/call.ts',
    find: 'if (!this.#open || !item || !this.#left.delete(item)) return',
    replace: `if (!this.#open || !item) return
    this.#left.delete(item)`,
  },
  {
    of: 'I21',
    name: 'an event that fails is tried for ever',
    file: 'src/outbox/sender.ts',
    find: 'const attempts = item.held ? attemptsOf(item.held) + 1 : 1',
    replace: 'const attempts = 1',
  },
  {
    of: 'I9',
    name: 'a type that an older version does not know is passed',
    weather: 'versions',
    file: 'src/consumer/unknown-types.ts',
    find: `(from.unknown ?? 'park')`,
    replace: `(from.unknown ?? 'ignore')`,
  },
  {
    of: 'I21',
    name: 'nobody is told of the next event of a line that was sent again to a consumer',
    weather: 'resends',
    file: 'src/source/outbox-due.ts',
    find: 'touched: sent }',
    replace: 'touched: [] }',
  },
  {
    of: 'I21',
    name: 'what was in hand when its shard was lost stays in hand',
    weather: 'resends',
    file: 'src/source/outbox-due.ts',
    find: '    for (const [seq, shard] of this.#inHand) if (!this.#leases.owns(shard)) this.#inHand.delete(seq)\n',
    replace: '',
  },
  {
    of: '44',
    name: 'a type that an older version does not know is set aside before its predecessor',
    weather: 'versions',
    file: 'src/consumer/work.ts',
    find: '    await letWait(parts, park, fates)\n',
    replace: '',
  },
  {
    of: 'I8',
    name: 'what waits behind an event that is given up with its shard is sent',
    weather: 'resends',
    file: 'src/outbox/sender.ts',
    find: '    if (gone.size > 0) this.#lanes.drop(gone)\n',
    replace: '',
  },
  {
    of: 'I9, 32',
    name: 'an import parks what runs at that moment',
    weather: 'imports',
    file: 'src/store/memory/redrives.ts',
    find: 'counts = await statements.importLetters(work, free)',
    replace: 'counts = await statements.importLetters(work, letters)',
  },
  {
    of: 'I9, 32',
    name: 'an import parks what is applied',
    weather: 'imports',
    file: 'src/store/memory/statements/redrive-run.ts',
    find: `    if (isApplied(work, letter.id)) counts.applied += 1
    else if (await`,
    replace: '    if (await',
  },
]

const FOUND_BY_LOCKS_THAT_LINGER: readonly Patch[] = [
  {
    of: 'I4',
    name: 'a lock that is about to be released is another request',
    file: 'src/operation/settle.ts',
    find: 'if (view.record || looks++ === LOCK_LOOKS)',
    replace: 'if (view.record || looks++ === 0)',
  },
]

/** Mutants at the points where operations, requests and services meet. */
export const PATCHES: readonly Patch[] = [
  ...FOUND_WHERE_OPERATIONS_MEET.map((patch) => ({ ...patch, company: 'meets' as const })),
  ...FOUND_WITH_CONSUMERS.map((patch) => ({ ...patch, company: 'meets' as const, relays: true, consumers: true })),
  ...FOUND_BY_LOCKS_THAT_LINGER,
  ...FOUND_WITH_BATCHES.map((patch) => ({ ...patch, company: 'batches' as const })),
  ...FOUND_WHERE_TIME_PASSES.map((patch) => ({ ...patch, relays: true, consumers: true })),
  ...FOUND_WITH_FAILING_MESSAGES.map((patch) => ({ ...patch, relays: true, consumers: true })),
  ...FOUND_IN_BAD_WEATHER.map((patch) => ({ ...patch, relays: true, consumers: true })),
  ...LIMIT_PATCHES,
  ...TIER_PATCHES,
  ...UNDO_PATCHES,
  ...FOUND_WITH_SERVICES.map((patch) => ({ ...patch, company: 'services' as const, relays: true, consumers: true })),
  ...FOUND_WITH_A_NEIGHBOUR.map((patch) => ({ ...patch, company: 'neighbour' as const })),
]
