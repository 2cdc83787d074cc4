import type { Call, Ended } from './call.ts'
import type { Circuit } from './circuit.ts'
import type { Shard } from './shard.ts'

/** The calls of the sink that are under way. */
export class Calls {
  readonly #circuit: Circuit
  readonly #most: number
  readonly #calls = new Map<Call, Promise<void>>()

  constructor(circuit: Circuit, most: number) {
    this.#circuit = circuit
    this.#most = most
  }

  get isQuiet(): boolean {
    return this.#calls.size === 0
  }

  /** While the sink is down, one call tries it. If no answer comes, the event of that call may be at fault. */
  get haveRoom(): boolean {
    const { down, round: now } = this.#circuit
    if (this.#calls.size >= this.#most) return false
    return down === 0 || [...this.#calls.keys()].every(({ round, isOld }) => round.no !== now || isOld)
  }

  /** Whether each call only tries a sink that is down. */
  get areProbes(): boolean {
    return [...this.#calls.keys()].every(({ round }) => round.probing)
  }

  /** Whether events of this shard are under way. */
  areBusyWith(shard: Shard): boolean {
    for (const { items } of this.#calls.keys()) {
      if (items.some((of) => of.shard === shard && of.state === 'underWay')) return true
    }
    return false
  }

  begin(call: Call, ended: (ended: Ended | undefined) => void): void {
    const over = call.ended.then((how) => {
      this.#calls.delete(call)
      ended(how)
    })
    this.#calls.set(call, over)
    void call.run()
  }

  /** Ends all calls. */
  async abort(): Promise<void> {
    for (const call of this.#calls.keys()) call.stop(new Error('the relay is stopping'))
    await Promise.all(this.#calls.values())
  }
}
