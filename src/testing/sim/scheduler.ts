import { Dice } from './dice.ts'

/** The longest time that one read of the clock takes, in milliseconds. A busy machine takes longer. */
const LOOKS_MS = [0, 0.05, 0.2, 1]

/** The owner of a task. Tasks of a dead owner never run; tasks of a paused owner wait. */
export interface Owner {
  readonly name: string
  readonly alive: boolean
  readonly paused: boolean
}

interface Task {
  readonly owner: Owner
  readonly run: () => void
  cancelled: boolean
}

interface Timer extends Task {
  readonly at: number
  readonly order: number
}

/**
 * Virtual time, with one task at a time, chosen by the dice. Every microtask is drained between two tasks: a microtask
 * requests the next tick, and Node starts that tick only when its microtask queue is empty. This needs no macrotask and
 * no system call.
 */
export class Scheduler {
  readonly dice: Dice
  time = 0
  steps = 0
  private readonly ready: Task[] = []
  private readonly timers: Timer[] = []
  /** A separate random stream, so that the duration of clock reads does not affect other decisions. */
  private readonly moments: Dice
  private readonly lookMs: number
  private order = 0

  constructor(seed: number) {
    this.dice = new Dice(seed)
    this.moments = new Dice(seed + 0x1_0000_0000)
    this.lookMs = this.moments.pick(LOOKS_MS)
  }

  /** The time as a process sees it. Time passes between two reads. */
  look(): number {
    this.time += this.lookMs * this.moments.next()
    return this.time
  }

  post(owner: Owner, run: () => void): void {
    this.ready.push({ owner, run, cancelled: false })
  }

  /** Resolves in a step of its own if the owner is alive by then. Otherwise the promise never resolves. */
  turn(owner: Owner): Promise<void> {
    return new Promise((resolve) => this.post(owner, resolve))
  }

  after(owner: Owner, ms: number, run: () => void): () => void {
    const timer: Timer = { owner, run, at: this.time + Math.max(0, ms), order: this.order++, cancelled: false }
    let i = this.timers.length
    while (i > 0 && isLater(this.timers[i - 1]!, timer)) i--
    this.timers.splice(i, 0, timer)
    return () => {
      timer.cancelled = true
    }
  }

  /**
   * Behaves like Node's timers, which count whole milliseconds from the last whole one. They fire up to two
   * milliseconds early.
   */
  timer(owner: Owner, ms: number, run: () => void): () => void {
    return this.after(owner, Math.max(1, Math.trunc(ms)) - (this.time % 1), run)
  }

  sleep(owner: Owner, ms: number): Promise<void> {
    return new Promise((resolve) => this.after(owner, ms, resolve))
  }

  /** Runs steps until `until` returns true, nothing is left to do, or the bound is reached. */
  run(until: () => boolean, bound: number): Promise<'until' | 'idle' | 'bound'> {
    const end = this.steps + bound
    return new Promise((resolve) => {
      const tick = (): void => {
        if (until()) return resolve('until')
        if (this.steps >= end) return resolve('bound')
        const task = this.next()
        if (task === null) return resolve('idle')
        this.steps += 1
        this.time += this.dice.next()
        task.run()
        queueMicrotask(again)
      }
      const again = (): void => {
        process.nextTick(tick)
      }
      process.nextTick(tick)
    })
  }

  /** Removes the tasks of a dead process, so that they do not accumulate. */
  forget(owner: Owner): void {
    remove(this.ready, owner)
    remove(this.timers, owner)
  }

  private next(): Task | null {
    this.ripen()
    for (;;) {
      const task = this.choose()
      if (task !== null) return task
      const timer = this.timers.find(isAble)
      if (timer === undefined) return null
      this.time = Math.max(this.time, timer.at)
      this.ripen()
    }
  }

  private choose(): Task | null {
    let able = 0
    for (const task of this.ready) if (isAble(task)) able += 1
    if (able === 0) return null
    let n = this.dice.below(able)
    for (let i = 0; i < this.ready.length; i++) {
      const task = this.ready[i]!
      if (!isAble(task) || n-- > 0) continue
      this.ready.splice(i, 1)
      return task
    }
    return null
  }

  /** Turns due timers into ordinary tasks, so that they may run late. */
  private ripen(): void {
    let due = 0
    while (due < this.timers.length && this.timers[due]!.at <= this.time) due += 1
    for (const timer of this.timers.splice(0, due)) if (!timer.cancelled) this.ready.push(timer)
  }
}

function isAble({ owner, cancelled }: Task): boolean {
  return !cancelled && owner.alive && !owner.paused
}

function isLater(a: Timer, b: Timer): boolean {
  return a.at > b.at || (a.at === b.at && a.order > b.order)
}

function remove(list: Task[], owner: Owner): void {
  for (let i = list.length - 1; i >= 0; i--) if (list[i]!.owner === owner) list.splice(i, 1)
}
