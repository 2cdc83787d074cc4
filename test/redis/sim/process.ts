import { decide } from '../../../src/lifecycle/decide.ts'
import { createOnce, type OnceInstance } from '../../../src/once/once.ts'
import type { Clock } from '../../../src/platform/clock.ts'
import type { KeyedRedis } from '../../../src/platform/keyed-redis.ts'
import { redisStoreOn } from '../../../src/store/redis/redis-store.ts'
import { Dice } from '../../../src/testing/sim/dice.ts'
import type { Owner } from '../../../src/testing/sim/scheduler.ts'
import type { Reply } from './lua.ts'
import type { Connection } from './server.ts'
import type { World } from './world.ts'

const NEVER = <T>(): Promise<T> => new Promise<T>(() => undefined)

/** One process of a service, with the real store, and a network that loses and delays what it sends. */
export class Process implements Owner {
  readonly name: string
  readonly once: OnceInstance<undefined, {}>
  alive = true
  paused = false
  readonly #world: World
  readonly #clock: Clock
  #connection: Connection

  constructor(world: World, name: string) {
    this.#world = world
    this.name = name
    const { scheduler, dice } = world
    const rate = dice.chance(0.3) ? dice.between(0.5, 2) : 1
    this.#clock = {
      now: () => scheduler.look() * rate,
      after: (ms, callback) => scheduler.timer(this, ms / rate, callback),
    }
    this.#connection = world.redis.connect()
    const [clock, random] = [this.#clock, new Dice(dice.below(2 ** 31))]
    const redis: KeyedRedis = {
      call: async (_key, command) => (await this.#together([command]))[0],
      together: (_key, commands) => this.#together(commands),
      everywhere: (command) => this.#together([command]),
      connections: () => 1,
    }
    const store = redisStoreOn(redis, { prefix: 'sim', replicas: 1, clock, random })
    const times = { replayFor: '10m', goneFor: '10m', endsWithin: '60s' } as const
    this.once = createOnce({ namespace: 'sim', store, guard: 'off', ...times }, { clock, random, decide })
  }

  turn(): Promise<void> {
    if (this.#world.hit('dies')) this.die()
    else if (this.#world.hit('pauses')) this.pause()
    return this.#world.scheduler.turn(this)
  }

  sleep(ms: number): Promise<void> {
    return this.#world.scheduler.sleep(this, ms)
  }

  die(): void {
    if (!this.alive) return
    this.alive = false
    this.#world.scheduler.forget(this)
    this.#world.replace(this)
  }

  pause(): void {
    const { scheduler, owner, dice, leaseMs } = this.#world
    this.paused = true
    scheduler.after(owner, dice.between(0.5, 3) * leaseMs, () => (this.paused = false))
  }

  /** The commands travel together on one connection, and so do their replies. */
  async #together(commands: readonly (readonly string[])[]): Promise<Reply[]> {
    const world = this.#world
    if (!this.alive || world.hit('dies')) return this.#dead()
    if (this.#connection.era !== world.redis.era) this.#connection = world.redis.connect()
    const connection = this.#connection
    if (world.hit('requestLost')) return this.#broken()
    if (world.hit('requestLate')) {
      // The client has given up on it, and the server still gets it.
      world.scheduler.after(world.owner, world.dice.between(0, 4 * world.leaseMs), () => {
        this.#execute(connection, commands).catch(() => undefined)
      })
      return this.#broken()
    }
    await new Promise<void>((resolve) => {
      world.scheduler.post(world.owner, () => (this.alive || world.dice.chance(0.5) ? resolve() : undefined))
    })
    const doing = this.#execute(connection, commands).then(
      (replies) => ({ replies }),
      (error: Error) => ({ error }),
    )
    const isLost = world.hit('replyLost')
    // The connection may break while the server still waits for its replica.
    const done = isLost && world.dice.chance(0.5) ? null : await doing
    if (!this.alive || world.hit('dies')) return this.#dead()
    if (isLost || done === null) return this.#broken()
    if (world.hit('pauses')) this.pause()
    await world.scheduler.turn(this)
    if ('error' in done) throw done.error
    return done.replies
  }

  async #execute(connection: Connection, commands: readonly (readonly string[])[]): Promise<Reply[]> {
    const { redis } = this.#world
    const replies: Reply[] = []
    for (const command of commands) {
      if (connection.era !== redis.era) throw new Error('the connection is closed')
      replies.push(await redis.execute(connection, command))
    }
    return replies
  }

  async #broken(): Promise<never> {
    this.#connection = this.#world.redis.connect()
    await this.#world.scheduler.turn(this)
    throw new Error('the connection is closed')
  }

  #dead(): Promise<never> {
    this.die()
    return NEVER()
  }
}
