/* oxlint-disable typescript/consistent-return -- every kind is handled; the compiler checks that */
import { Dice } from './dice.ts'
import type {
  Asks,
  AtomicOperation,
  BatchedFault,
  BatchedOperation,
  ConsumerPlan,
  Lock,
  Operation,
  Program,
  RowFault,
  Statement,
  StepStatement,
  StoreName,
  Via,
} from './program.ts'

/** Where a list of statements stands: what may be done there. */
type Context = 'main' | 'own' | 'tx' | 'leased' | 'step.tx'

type Doing = Statement['do'] | 'plain'

const WEIGHTS: Readonly<Record<Context, Readonly<Partial<Record<Doing, number>>>>> = {
  main: { call: 50, all: 9, allSettled: 4, race: 4, own: 9, detach: 4, try: 1, pause: 1 },
  own: { write: 20, call: 40, publish: 6, all: 12, allSettled: 4, try: 14, throw: 4 },
  tx: { write: 22, call: 30, publish: 10, all: 9, allSettled: 3, race: 4, try: 12, detach: 7, pause: 2 },
  leased: { step: 42, 'step.tx': 12, call: 10, all: 12, allSettled: 3, race: 3, try: 8, detach: 3, throw: 4 },
  'step.tx': { write: 50, call: 30, try: 10, throw: 8 },
}

const ROW_FAULTS: Readonly<Record<StoreName, readonly RowFault[]>> = {
  pg: ['raise', 'raise', 'unique', 'check', 'deferred', 'orphan', 'unserialisable'],
  sqlite: ['raise', 'unique', 'check', 'orphan', 'unserialisable'],
  'sqlite-shared': ['raise', 'unique', 'check', 'unserialisable'],
  memory: ['unique'],
}

const KILLED = 0.03
/** Two rows for everybody: whoever locks both may meet somebody who does so the other way round. */
const LOCKED = 0.2
const SIEGED = 0.02
const CROSSED = 0.04
const MIXED = 0.04
/** Long enough for the other one to have its first lock. */
const CROSSED_MS = 4
/** By then the holder has its lock; and it keeps it for longer than a hurried request waits. */
const SIEGE_MS = 60
const HELD_MS = 1_600
const DEPTH_MAX = 3
const SAVED = 0.08

/** The program of a seed. */
export function generate(seed: number, store: StoreName): Program {
  return new Generator(seed, store).program()
}

class Generator {
  readonly #seed: number
  readonly #store: StoreName
  readonly #dice: Dice
  #modes: readonly Operation['mode'][] = []
  #steps = 0

  constructor(seed: number, store: StoreName) {
    this.#seed = seed
    this.#store = store
    this.#dice = new Dice(seed)
  }

  program(): Program {
    const dice = this.#dice
    const count = 2 + dice.below(4)
    this.#modes = Array.from({ length: count }, () => dice.weighed({ atomic: 64, batched: 18, leased: 18 }))
    const operations = this.#modes.map((mode, op) => this.#operation(mode, op))
    const consumers = dice.chance(0.16) ? [this.#consumer()] : []
    const main = this.#list('main', -1, 2 + dice.below(3), 0)
    if (this.#store === 'pg' && dice.chance(SIEGED)) main.push(this.#siege(operations))
    if (this.#store === 'pg' && dice.chance(CROSSED)) main.push(this.#crossing(operations))
    if (this.#store === 'pg' && dice.chance(CROSSED)) main.push(this.#crossingBatches(operations))
    if (dice.chance(MIXED)) main.push(this.#mixed(operations))
    for (const index of consumers.keys()) main.splice(dice.below(main.length + 1), 0, { do: 'drain', consumer: index })
    if (consumers.length > 0 && dice.chance(0.3)) main.push({ do: 'drain', consumer: 0 })
    if (this.#store !== 'memory' && dice.chance(SAVED)) main.push(...this.#saved(operations, consumers))
    const kill = this.#store !== 'memory' && dice.chance(KILLED) ? { at: 2 + dice.below(50), lag: dice.below(4) } : null
    return { seed: this.#seed, operations, consumers, main, kill }
  }

  #operation(mode: Operation['mode'], op: number): Operation {
    const dice = this.#dice
    const answer = dice.chance(0.04) ? 'unserialisable' : 'plain'
    const key = dice.chance(0.12) ? dice.below(op + 1) : op
    switch (mode) {
      case 'atomic':
        return { mode, key, waits: dice.chance(0.15), body: this.#body('tx', op), answer }
      case 'leased': {
        const body = this.#list('leased', op, 1 + dice.below(3), 1)
        if (dice.chance(0.1)) body.push({ do: dice.pick(['throw', 'refuse']), times: dice.pick([1, 9]) })
        const commit = dice.chance(0.05) ? null : this.#body('tx', op)
        return { mode, key, body, commit, answer }
      }
      case 'batched': {
        const faults: readonly BatchedFault[] = [...ROW_FAULTS[this.#store], 'throws', 'refuses', 'answer']
        const fault = dice.chance(0.4) ? dice.pick(faults) : null
        return { mode, key, fault, publishes: dice.chance(0.3), lock: this.#lock(0.4), asks: this.#asks() }
      }
    }
  }

  /** What a handler with a transaction does: it writes first, and sometimes fails at the end, when everything else is done. */
  #body(context: 'tx', op: number): Statement[] {
    const dice = this.#dice
    const body = this.#list(context, op, 1 + dice.below(3), 1)
    if (dice.chance(0.7)) body.unshift({ do: 'write', fault: null, lock: this.#lock() })
    if (dice.chance(0.22)) body.push({ do: dice.weighed({ throw: 6, refuse: 4 }), times: dice.pick([1, 9]) })
    return body
  }

  #consumer(): ConsumerPlan {
    const dice = this.#dice
    const messages = Array.from({ length: 1 + dice.below(4) }, (_, id) => ({
      id,
      aggregate: dice.chance(0.3) ? 'a' : null,
    }))
    const from = dice.weighed({ queue: 7, outbox: 3 })
    // What is published once is there once.
    if (from === 'queue' && dice.chance(0.3)) messages.push(dice.pick(messages))
    const leased = dice.chance(0.3)
    return {
      via: this.#via(),
      pipelined: dice.chance(0.5),
      attempts: dice.pick([1, 2]),
      messages,
      from,
      body: leased ? this.#list('leased', -1, 1 + dice.below(2), 1) : this.#body('tx', -1),
      commit: leased ? this.#body('tx', -1) : null,
    }
  }

  /** What a batched request asks for where nobody waits for long. */
  #asks(): Asks {
    return this.#dice.weighed({ nothing: 7, patient: 2, kept: 1 })
  }

  /** Requests that come at the same time, and ask for different things. */
  #mixed(operations: Operation[]): Statement {
    const via = this.#via()
    const calls = (['nothing', 'patient', 'kept', this.#asks()] as const).map((asks): readonly Statement[] => {
      const op = operations.length
      const fault = this.#dice.chance(0.2) ? this.#dice.pick(['throws', 'refuses', 'answer'] as const) : null
      operations.push({ mode: 'batched', key: op, fault, publishes: this.#dice.chance(0.3), lock: null, asks })
      return [{ do: 'call', op, via, how: 'run', input: 1 }]
    })
    return { do: 'allSettled', of: calls }
  }

  /**
   * Somebody holds a lock for long. One request of a batch needs it, and is late; the others of the batch are not. A
   * patient one needs it too, and is not late either: it has a batch of its own.
   */
  #siege(operations: Operation[]): Statement {
    const dice = this.#dice
    const via = this.#via()
    const calls = Array.from({ length: 2 + dice.below(3) }, (_, i): readonly Statement[] => {
      const op = operations.length
      const asks = i === 1 ? 'patient' : i === 0 || dice.chance(0.6) ? 'hurried' : this.#asks()
      const lock = i < 2 ? 0 : null
      const made: BatchedOperation = { mode: 'batched', key: op, fault: null, publishes: false, lock, asks }
      operations.push(made)
      return [
        { do: 'hold', ms: SIEGE_MS },
        { do: 'call', op, via, how: 'run', input: 1 },
      ]
    })
    const holder: Statement = {
      do: 'own',
      body: [
        { do: 'write', fault: null, lock: 0 },
        { do: 'hold', ms: HELD_MS },
      ],
    }
    return { do: 'all', of: [[holder], ...calls] }
  }

  /** Two that lock the same rows, each in its own order: the database lets one of them fail. */
  #crossing(operations: Operation[]): Statement {
    const branches = ([0, 1] as const).map((first): readonly Statement[] => {
      const body: readonly Statement[] = [
        { do: 'write', fault: null, lock: first },
        { do: 'hold', ms: CROSSED_MS },
        { do: 'write', fault: null, lock: first === 0 ? 1 : 0 },
      ]
      if (this.#dice.chance(0.2)) return [{ do: 'own', body }]
      const op = operations.length
      operations.push(
        this.#dice.chance(0.3)
          ? { mode: 'leased', key: op, body: [], commit: body, answer: 'plain' }
          : { mode: 'atomic', key: op, waits: false, body, answer: 'plain' },
      )
      return [{ do: 'call', op, via: this.#via(), how: 'run', input: 1 }]
    })
    return { do: 'allSettled', of: branches }
  }

  /** A batch holds a row and then publishes; somebody who has published wants that row. */
  #crossingEvents(operations: Operation[]): Statement {
    const op = operations.length
    operations.push({ mode: 'batched', key: op, fault: null, publishes: true, lock: 0, asks: 'nothing' })
    const publishes: readonly Statement[] = [
      { do: 'publish', fault: null },
      { do: 'hold', ms: CROSSED_MS },
      { do: 'write', fault: null, lock: 0 },
    ]
    const calls: readonly Statement[] = [
      { do: 'hold', ms: this.#dice.below(CROSSED_MS + 2) },
      { do: 'call', op, via: 'shop', how: 'run', input: 1 },
    ]
    return { do: 'allSettled', of: [[{ do: 'own', body: publishes }], calls] }
  }

  /** The same of the batches of two instances; in which order they lock, their keys decide. */
  #crossingBatches(operations: Operation[]): Statement {
    if (this.#dice.chance(0.5)) return this.#crossingEvents(operations)
    const calls = (['shop', 'bank', 'shop', 'bank'] as const).map((via, i): readonly Statement[] => {
      const op = operations.length
      const lock = i < 2 ? 0 : 1
      operations.push({ mode: 'batched', key: op, fault: null, publishes: false, lock, asks: 'nothing' })
      return [{ do: 'call', op, via, how: 'run', input: 1 }]
    })
    return { do: 'allSettled', of: calls }
  }

  /**
   * A savepoint of the user's own around operations, in every kind of transaction. Nothing goes on beside it: what joins
   * the transaction meanwhile might share its fate.
   */
  #saved(operations: Operation[], consumers: ConsumerPlan[]): Statement[] {
    const dice = this.#dice
    const where = dice.pick(['run', 'own', 'commit', 'step.tx', 'message'] as const)
    const add = (made: Omit<AtomicOperation, 'key' | 'mode' | 'waits' | 'answer'>): number =>
      operations.push({ mode: 'atomic', key: operations.length, waits: false, answer: 'plain', ...made }) - 1
    const write = (): Statement => ({ do: 'write', fault: null, lock: null })
    const call = (op: number, how: 'run' | 'join'): Statement => ({ do: 'call', op, via: this.#via(), how, input: 1 })
    const how = where === 'own' ? 'join' : dice.pick(['run', 'join'] as const)
    const inner = add({ body: [write(), { do: 'publish', fault: null }] })
    const outer = add({ body: [write(), call(inner, 'run'), ...(dice.chance(0.5) ? [call(inner, 'run')] : [])] })
    const failing: Statement = { do: 'write', fault: dice.pick(ROW_FAULTS[this.#store]), lock: null }
    const inside = Array.from({ length: 1 + dice.below(3) }, () =>
      dice.chance(0.1) ? failing : dice.chance(0.15) ? write() : call(dice.pick([inner, outer]), how),
    )
    const undone = dice.chance(0.6)
    const savepoint: Statement = { do: 'savepoint', body: inside, undone }
    const body: Statement[] = [
      ...(dice.chance(0.3) ? [call(inner, how)] : []),
      dice.chance(0.3) ? { do: 'try', body: [savepoint] } : savepoint,
      ...(dice.chance(0.4) ? [call(dice.pick([inner, outer]), how)] : []),
      ...(dice.chance(0.15) ? [{ do: 'throw', times: 1 } as const] : []),
    ]
    const after: Statement[] = dice.chance(0.6) ? [call(dice.pick([inner, outer]), 'run')] : []
    if (where === 'own') return [{ do: 'own', body }, ...after]
    if (where === 'message') {
      const messages = [{ id: 0, aggregate: null }]
      const plan = { via: this.#via(), pipelined: dice.chance(0.5), attempts: 2, from: 'queue', commit: null } as const
      return [{ do: 'drain', consumer: consumers.push({ ...plan, messages, body }) - 1 }, ...after]
    }
    if (where === 'run') return [call(add({ body }), 'run'), ...after]
    const stepped: Statement[] = where === 'step.tx' ? [{ do: 'step.tx', name: this.#stepName(), body }] : []
    const op = operations.length
    const commit = where === 'commit' ? body : [write()]
    operations.push({ mode: 'leased', key: op, body: stepped, commit, answer: 'plain' })
    return [call(op, 'run'), ...after]
  }

  #lock(chance = LOCKED): Lock {
    if (this.#store !== 'pg' || !this.#dice.chance(chance)) return null
    return this.#dice.pick([0, 1] as const)
  }

  #list(context: Context, op: number, length: number, depth: number): Statement[] {
    return Array.from({ length }, () => this.#statement(context, op, depth))
  }

  #statement(context: Context, op: number, depth: number): Statement {
    const dice = this.#dice
    const kind = dice.weighed(WEIGHTS[context])
    const deep = depth >= DEPTH_MAX
    switch (kind) {
      case 'write':
        return { do: 'write', fault: dice.chance(0.1) ? dice.pick(ROW_FAULTS[this.#store]) : null, lock: this.#lock() }
      case 'publish':
        return { do: 'publish', fault: context !== 'own' && dice.chance(0.12) ? 'unserialisable' : null }
      case 'all':
      case 'allSettled':
      case 'race':
        if (deep) return this.#call(context, op)
        return {
          do: kind,
          of: Array.from({ length: 2 + dice.below(2) }, () => this.#branch(context, op, depth + 1)),
        }
      case 'try':
        if (deep) return this.#call(context, op)
        return { do: 'try', body: this.#failing(context, op, depth + 1) }
      case 'detach': {
        const when = dice.pick(['now', 'soon', 'after'] as const)
        // A step belongs to its attempt: it is begun while that goes on.
        const calls = context === 'leased' && when !== 'now'
        return { do: 'detach', when, body: calls ? [this.#call(context, op)] : this.#branch(context, op, depth + 1) }
      }
      case 'own':
        return { do: 'own', body: this.#list('own', op, 1 + dice.below(3), depth + 1) }
      case 'step':
        return this.#step()
      case 'step.tx':
        return { do: 'step.tx', name: this.#stepName(), body: this.#list('step.tx', op, 1 + dice.below(2), depth + 1) }
      case 'throw':
        return { do: 'throw', times: dice.pick([1, 9]) }
      case 'pause':
        return { do: 'pause', turns: 1 + dice.below(3) }
      default:
        return this.#call(context, op)
    }
  }

  /** One branch of several: mostly one call, or what the place is for. */
  #branch(context: Context, op: number, depth: number): Statement[] {
    if (context === 'leased' && this.#dice.chance(0.7)) return [this.#step()]
    return this.#dice.chance(0.75) ? [this.#call(context, op)] : this.#list(context, op, 1 + this.#dice.below(2), depth)
  }

  /** What is worth catching: something that may fail, at times for sure. */
  #failing(context: Context, op: number, depth: number): Statement[] {
    const body = this.#list(context, op, 1 + this.#dice.below(2), depth)
    if (this.#dice.chance(0.3)) body.push({ do: 'throw', times: 9 })
    return body
  }

  #step(): StepStatement {
    const dice = this.#dice
    const fault = dice.chance(0.35) ? dice.pick(['before', 'after', 'unserialisable'] as const) : null
    const keyed = dice.chance(0.5)
    return {
      do: 'step',
      name: this.#stepName(),
      keyed,
      reconciles: !keyed && dice.chance(0.6),
      fault,
      times: 1,
      turns: dice.below(5),
    }
  }

  #stepName(): string {
    return `s${this.#steps++}`
  }

  /** Mostly of a later operation; at times of an earlier one, or of itself. */
  #call(context: Context, op: number): Statement {
    const dice = this.#dice
    const count = this.#modes.length
    const inside = context !== 'main' && context !== 'leased'
    let callee = dice.chance(0.8) && op + 1 < count ? op + 1 + dice.below(count - op - 1) : dice.below(count)
    // A leased operation inside a transaction is refused: once in a while is enough.
    const tries = inside ? 3 : 0
    for (let tried = 0; tried < tries && this.#modes[callee] === 'leased' && dice.chance(0.85); tried++) {
      callee = dice.below(count)
    }
    const mode = this.#modes[callee]
    // Directly in a transaction of the user's own there is no operation to join but by name.
    if (context === 'own' && mode !== 'atomic') return { do: 'write', fault: null, lock: null }
    const joins = context === 'own' || (inside && mode === 'atomic' && dice.chance(0.25))
    return {
      do: 'call',
      op: callee,
      via: this.#via(),
      how: joins ? 'join' : 'run',
      input: dice.chance(0.08) ? 2 : 1,
    }
  }

  #via(): Via {
    return this.#dice.weighed({ shop: 70, twin: 18, bank: 12 })
  }
}
