import { keyOf, namespaceOf, type Lock, type Program, type RowFault, type Via } from '../program.ts'
import type { Entry, ExecutionKind, Heard } from '../trace.ts'

/** A trace as the things that happened. Times are places in the trace; `end` null: it never ended, or nobody lived to see it. */
export interface History {
  readonly program: Program
  readonly calls: readonly Call[]
  readonly execs: readonly Exec[]
  readonly owns: readonly Own[]
  readonly drains: readonly Drain[]
  readonly steps: readonly Step[]
  /** The events that messages were published as, by consumer and number. */
  readonly sent: ReadonlyMap<string, string>
  /** Messages that were acknowledged, by consumer and number. */
  readonly acked: ReadonlySet<string>
  /** When the process was killed. */
  readonly killedAt: number | null
  readonly reached: readonly { readonly what: string; readonly exec: Exec | null }[]
}

export interface Call {
  readonly id: number
  readonly at: number
  end: number | null
  heard: Heard | null
  readonly op: number
  readonly via: Via
  /** The identity: two calls of one key are retries of each other. */
  readonly key: string
  readonly input: number
  readonly how: 'run' | 'join'
  readonly calm: boolean
  readonly mode: 'atomic' | 'leased' | 'batched'
  /** The answer of its batch is a refusal. */
  readonly refuses: boolean
  /** The handler, or the own transaction, whose code made the call. */
  readonly from: Exec | Own | null
  readonly execs: Exec[]
}

export interface Own {
  readonly is: 'own'
  readonly id: number
  readonly at: number
  end: number | null
  heard: Heard | null
  readonly writes: Write[]
  readonly publishes: Publish[]
  readonly calls: Call[]
}

export interface Exec {
  readonly is: 'exec'
  readonly id: number
  readonly kind: ExecutionKind
  readonly at: number
  end: number | null
  heard: Heard | null
  /** What the library made of a `commit` or a `step.tx`, and when. */
  outcome: Heard | null
  endedAt: number | null
  /** When a leased handler called `commit`. */
  commitsAt: number | null
  readonly call: Call | null
  readonly of: Exec | null
  readonly message: { readonly drain: Drain; readonly id: number } | null
  readonly writes: Write[]
  readonly publishes: Publish[]
  readonly calls: Call[]
  readonly steps: Step[]
}

export interface Write {
  readonly id: number
  readonly at: number
  end: number | null
  heard: Heard | null
  readonly fault: RowFault | null
  readonly lock: Lock
}

export interface Publish {
  readonly id: number
  readonly at: number
  end: number | null
  heard: Heard | null
  readonly fault: 'unserialisable' | null
}

export interface Step {
  readonly id: number
  readonly at: number
  end: number | null
  heard: Heard | null
  readonly exec: Exec
  readonly name: string
  readonly keyed: boolean
  readonly reconciles: boolean
  readonly outside: { readonly id: number; readonly at: number; readonly key: string; charged: boolean }[]
}

export interface Drain {
  readonly id: number
  readonly at: number
  end: number | null
  heard: Heard | null
  readonly consumer: number
  readonly execs: Exec[]
}

export function historyOf(program: Program, entries: readonly Entry[]): History {
  return new Reader(program).read(entries)
}

class Reader {
  readonly #program: Program
  readonly #things = new Map<number, unknown>()
  readonly #calls: Call[] = []
  readonly #execs: Exec[] = []
  readonly #owns: Own[] = []
  readonly #drains: Drain[] = []
  readonly #steps: Step[] = []
  readonly #reached: { what: string; exec: Exec | null }[] = []
  readonly #sent = new Map<string, string>()
  readonly #acked = new Set<string>()
  #killedAt: number | null = null

  constructor(program: Program) {
    this.#program = program
  }

  read(entries: readonly Entry[]): History {
    for (const [at, entry] of entries.entries()) this.#take(at, entry)
    return {
      program: this.#program,
      calls: this.#calls,
      execs: this.#execs,
      owns: this.#owns,
      drains: this.#drains,
      steps: this.#steps,
      sent: this.#sent,
      acked: this.#acked,
      killedAt: this.#killedAt,
      reached: this.#reached,
    }
  }

  #take(at: number, entry: Entry): void {
    switch (entry.is) {
      case 'call':
        return this.#call(at, entry)
      case 'exec':
        return this.#exec(at, entry)
      case 'own': {
        const own: Own = { is: 'own', id: at, at, end: null, heard: null, writes: [], publishes: [], calls: [] }
        return this.#add(at, own, this.#owns)
      }
      case 'savepoint':
        return this.#savepoint(at, entry)
      case 'drain': {
        const drain: Drain = { id: at, at, end: null, heard: null, consumer: entry.consumer, execs: [] }
        return this.#add(at, drain, this.#drains)
      }
      case 'step': {
        const exec = this.#of<Exec>(entry.exec) as Exec
        const { name, keyed, reconciles } = entry
        const step: Step = { id: at, at, end: null, heard: null, exec, name, keyed, reconciles, outside: [] }
        exec.steps.push(step)
        return this.#add(at, step, this.#steps)
      }
      case 'write': {
        const { fault, lock } = entry
        const write: Write = { id: at, at, end: null, heard: null, fault, lock }
        return this.#add(at, write, (this.#from(entry) as Exec | Own).writes)
      }
      case 'publish': {
        const publish: Publish = { id: at, at, end: null, heard: null, fault: entry.fault }
        return this.#add(at, publish, (this.#from(entry) as Exec | Own).publishes)
      }
      case 'called':
        return this.#end(at, entry.call, entry.heard)
      case 'execed':
        return this.#end(at, entry.exec, entry.heard)
      case 'commits':
        return void Object.assign(this.#of<Exec>(entry.exec) as Exec, { commitsAt: at })
      case 'ended':
        return void Object.assign(this.#of<Exec>(entry.exec) as Exec, { endedAt: at, outcome: entry.heard })
      case 'written':
        return this.#end(at, entry.write, entry.heard)
      case 'published':
        return this.#end(at, entry.publish, entry.heard)
      case 'owned':
        return this.#end(at, entry.own, entry.heard)
      case 'savepointed': {
        const exec = this.#of<Exec>(entry.savepoint) as Exec
        Object.assign(exec, { end: at, heard: entry.heard })
        return void Object.assign(exec.call as Call, { end: at, heard: entry.heard })
      }
      case 'stepped':
        return this.#end(at, entry.step, entry.heard)
      case 'drained':
        return this.#end(at, entry.drain, entry.heard)
      case 'outside': {
        const outside = { id: at, at, key: entry.key, charged: false }
        return this.#add(at, outside, (this.#of<Step>(entry.step) as Step).outside)
      }
      case 'charged':
        return void Object.assign(this.#of<object>(entry.outside) as object, { charged: true })
      case 'reached':
        return void this.#reached.push({ what: entry.what, exec: this.#of<Exec>(entry.exec) })
      case 'reconciled':
        return void this.#reached.push({ what: `reconciled ${entry.verdict}`, exec: null })
      case 'sent':
        return void this.#sent.set(`${entry.consumer}.${entry.id}`, entry.event)
      case 'acked':
        return void this.#acked.add(`${entry.consumer}.${entry.id}`)
      case 'killed':
        this.#killedAt = at
    }
  }

  #call(at: number, entry: Extract<Entry, { is: 'call' }>): void {
    const { op, via, input, how, calm } = entry
    const operation = this.#program.operations[op]
    const mode = operation?.mode ?? 'atomic'
    const refuses = operation?.mode === 'batched' && operation.fault === 'refuses' && !calm
    const from = this.#from(entry)
    const key = `${namespaceOf(via)}/${keyOf(this.#program, op)}`
    const of = { op, via, key, input, how, calm, mode, refuses, from }
    const call: Call = { id: at, at, end: null, heard: null, ...of, execs: [] }
    from?.calls.push(call)
    this.#add(at, call, this.#calls)
  }

  /** What stands in a savepoint shares its fate, as if it were an operation inside another one that nobody can ask for. */
  #savepoint(at: number, entry: Extract<Entry, { is: 'savepoint' }>): void {
    const from = this.#from(entry) as Exec | Own
    const key = `savepoint ${at}`
    const of = { op: -1, via: 'shop', key, input: 1, how: 'run', calm: false, mode: 'atomic', refuses: false } as const
    const call: Call = { id: at, at, end: null, heard: null, ...of, from, execs: [] }
    const exec = execOf(at, { kind: 'atomic', call, of: null, message: null })
    from.calls.push(call)
    call.execs.push(exec)
    this.#add(at, exec, this.#execs)
  }

  #exec(at: number, entry: Extract<Entry, { is: 'exec' }>): void {
    const call = this.#of<Call>(entry.call)
    const drain = entry.message && (this.#of<Drain>(entry.message.drain) as Drain)
    const message = drain && entry.message ? { drain, id: entry.message.id } : null
    const exec = execOf(at, { kind: entry.kind, call, of: this.#of<Exec>(entry.of), message })
    call?.execs.push(exec)
    drain?.execs.push(exec)
    this.#add(at, exec, this.#execs)
  }

  #from(entry: { readonly exec: number | null; readonly own: number | null }): Exec | Own | null {
    return this.#of<Exec | Own>(entry.exec ?? entry.own)
  }

  // oxlint-disable-next-line typescript/no-unnecessary-type-parameters -- the trace says what stands at a place
  #of<T>(place: number | null): T | null {
    return place === null ? null : (this.#things.get(place) as T)
  }

  #add<T>(at: number, thing: T, list: T[]): void {
    this.#things.set(at, thing)
    list.push(thing)
  }

  /** What ended again (a batch answers twice when it runs again) counts as it ended first. */
  #end(at: number, place: number, heard: Heard): void {
    const thing = this.#of<{ end: number | null; heard: Heard | null }>(place)
    if (thing && thing.end === null) Object.assign(thing, { end: at, heard })
  }
}

function execOf(at: number, of: Pick<Exec, 'kind' | 'call' | 'of' | 'message'>): Exec {
  return {
    is: 'exec',
    id: at,
    at,
    end: null,
    heard: null,
    outcome: null,
    endedAt: null,
    commitsAt: null,
    ...of,
    writes: [],
    publishes: [],
    calls: [],
    steps: [],
  }
}
