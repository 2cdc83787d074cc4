import { AsyncLocalStorage } from 'node:async_hooks'
import type { Inbox, InboxSession } from '../../store/inbox.ts'
import type { Outbox, ReleaseParams } from '../../store/outbox.ts'
import type { Batches, BatchSession, Held, Leases, SqlSession, SqlStore } from '../../store/store.ts'
import { errorOf, possibleFault } from './fault.ts'
import type { Fault, Hit, Shot } from './fault.ts'
import { Patches } from './patches.ts'
import { SimulatedProcess } from './process.ts'
import type { Ending } from './process.ts'

const STATEMENTS = ['claim', 'reread', 'renew', 'read', 'completeInside', 'append', 'savepoint'] as const
const COMMITS = ['complete', 'completeStep'] as const
const ALONE = ['finish', 'steps', 'startStep', 'finishStep', 'suspend'] as const
const OUTBOX = ['open', 'read', 'ack', 'due', 'tryHeld', 'takeDelayed', 'heldBefore', 'settleHeld'] as const
const INBOX = ['open', 'look', 'trying', 'untry', 'tries', 'failed', 'park', 'positions', 'pass'] as const

/**
 * Injects faults between an instance and its store. It patches the store objects in place, because the instance already
 * holds references to these objects.
 */
export class Injector {
  readonly hits: Hit[] = []
  /** The names of the calls since the last `arm`. */
  readonly calls: string[] = []
  private readonly patches = new Patches()
  private readonly store: SqlStore<unknown>
  private readonly context = new AsyncLocalStorage<SimulatedProcess>()
  /** Calls of a server in this process have the context of its connections, not that of `act`. */
  private latest = new SimulatedProcess()
  private shots: readonly Shot[] = []
  /** Leases that no process knows, because the reply was lost or the process died. */
  private orphans: Held[] = []
  private orphanShards: Omit<ReleaseParams, 'leaving'>[] = []

  constructor(store: SqlStore<unknown>) {
    this.store = store
    this.patchStore()
    this.patchLeases(store.leases)
    if (store.batches) this.patchBatches(store.batches)
    if (store.outbox) this.patchOutbox(store.outbox)
    if (store.inbox) this.patchInbox(store.inbox)
  }

  arm(shots: readonly Shot[]): void {
    this.shots = shots
    this.hits.length = 0
    this.calls.length = 0
  }

  /** Injects no more faults. */
  disarm(): void {
    this.shots = []
  }

  /** Runs work as a new process. */
  async live(work: (process: SimulatedProcess) => Promise<unknown>): Promise<'ended' | 'crashed'> {
    const process = new SimulatedProcess()
    this.latest = process
    const ended = this.context.run(process, () => work(process)).then(() => 'ended' as const)
    // A dead process may still fail, and nobody listens.
    ended.catch(() => {})
    return Promise.race([ended, process.crashed])
  }

  /** Ends the leases at once, as if the time had passed. */
  async letLapse(): Promise<void> {
    const { leases, outbox } = this.store
    const release = this.patches.original(leases, 'release')
    for (const held of this.orphans.splice(0)) await release(held)
    if (this.orphanShards.length === 0) return
    const releaseShards = this.patches.original(outbox, 'release')
    for (const shards of this.orphanShards.splice(0)) await releaseShards({ ...shards, leaving: true })
  }

  remove(): void {
    this.patches.remove()
  }

  private get process(): SimulatedProcess {
    return this.context.getStore() ?? this.latest
  }

  private patchStore(): void {
    const { store, patches } = this
    patches.wrap(
      store,
      'begin',
      (begin) => (params) =>
        this.opening(
          'begin',
          () => begin(params),
          (begun) => this.session(begun.session),
        ),
    )
    patches.wrap(
      store,
      'open',
      (open) => (params) =>
        this.opening(
          'open',
          () => open(params),
          (session) => this.session(session),
        ),
    )
    patches.wrap(store, 'read', (read) => (params) => this.alone('read', () => read(params)))
    patches.wrap(store, 'refuse', (refuse) => (params) => this.alone('refuse', () => refuse(params)))
    patches.wrap(store, 'join', (join) => async (tx) => {
      const session = await this.alone('join', () => join(tx))
      // The user's own transaction: not ours to roll back.
      this.statements(session, () => Promise.resolve())
      return session
    })
  }

  private patchLeases(leases: Leases): void {
    const { patches } = this
    patches.wrap(
      leases,
      'claim',
      (claim) => (params) =>
        this.alone(
          'leases.claim',
          () => claim(params),
          ({ claimed }, process) => process.held(params.claim.id, claimed?.token),
        ),
    )
    patches.wrap(
      leases,
      'takeOver',
      (takeOver) => (params) =>
        this.alone(
          'leases.takeOver',
          () => takeOver(params),
          (claimed, process) => process.held(params.claim.id, claimed?.token),
        ),
    )
    patches.wrap(leases, 'release', (release) => async (held) => {
      try {
        return await this.alone('leases.release', () => release(held))
      } catch (error) {
        this.orphans.push(held)
        throw error
      }
    })
    for (const name of ALONE) this.every(patches, leases, name, (call) => this.alone(`leases.${name}`, call))
  }

  private patchBatches(batches: Batches): void {
    this.patches.wrap(
      batches,
      'open',
      (open) => (params) =>
        this.opening(
          'batches.open',
          () => open(params),
          ({ session }) => this.batch(session),
        ),
    )
  }

  private patchOutbox(outbox: Outbox): void {
    const { patches } = this
    // Heartbeats are not counted: the clock triggers them. A relay keeps its share of the shards until it leaves.
    patches.wrap(outbox, 'beat', (beat) => async (params) => {
      if (this.process.isDead) throw errorOf('crash')
      this.process.shards.push({ destination: params.destination, relay: params.relay, leases: [] })
      return beat(params)
    })
    patches.wrap(outbox, 'lease', (lease) => (params) => {
      const { destination, relay } = params
      return this.alone(
        'outbox.lease',
        () => lease(params),
        (leases, process) => void process.shards.push({ destination, relay, leases }),
      )
    })
    patches.wrap(outbox, 'release', (release) => async (params) => {
      try {
        return await this.alone('outbox.release', () => release(params))
      } catch (error) {
        this.orphanShards.push(params)
        throw error
      }
    })
    for (const name of OUTBOX) this.every(patches, outbox, name, (call) => this.alone(`outbox.${name}`, call))
  }

  private patchInbox(inbox: Inbox<unknown>): void {
    const { patches } = this
    patches.wrap(
      inbox,
      'take',
      (take) => (params) =>
        this.opening(
          'inbox.take',
          () => take(params),
          ({ session }) => this.inboxSession(session),
        ),
    )
    patches.wrap(
      inbox,
      'enter',
      (enter) => (session, params) =>
        this.inside(
          'inbox.enter',
          () => enter(session, params),
          () => session.rollback(),
        ),
    )
    for (const name of INBOX) this.every(patches, inbox, name, (call) => this.alone(`inbox.${name}`, call))
  }

  private inboxSession(inbox: InboxSession<unknown>): Ending {
    const end = this.ending(inbox)
    this.statements(inbox.session, end)
    new Patches().wrap(
      inbox,
      'complete',
      (complete) => (params) => this.commit('inbox.complete', () => complete(params), end),
    )
    return inbox
  }

  private session(session: SqlSession<unknown>): Ending {
    this.statements(session, this.ending(session))
    return session
  }

  private statements(session: SqlSession<unknown>, end: () => Promise<void>): void {
    const local = new Patches()
    for (const name of STATEMENTS) this.every(local, session, name, (call) => this.inside(name, call, end))
    for (const name of COMMITS) this.every(local, session, name, (call) => this.commit(name, call, end))
  }

  /** Records that a transaction is open until it ends in any way. */
  private ending(session: Ending & { leave?(): void; complete: unknown; completeStep?: unknown }): () => Promise<void> {
    const { process } = this
    const local = new Patches()
    const rollback = session.rollback.bind(session)
    const ended = (): void => process.ended(session)
    process.opened(session)
    for (const name of ['rollback', 'leave', 'complete', 'completeStep']) {
      local.wrap(session as unknown as Record<string, (...args: unknown[]) => unknown>, name, (end) => (...args) => {
        ended()
        return end(...args)
      })
    }
    return async () => {
      ended()
      await rollback()
    }
  }

  /** Whatever a method takes and returns: `around` decides whether it is called. */
  private every<T extends object>(
    patches: Patches,
    object: T,
    name: keyof T & string,
    around: (call: () => Promise<unknown>) => Promise<unknown>,
  ): void {
    const methods = object as Record<string, (...args: unknown[]) => Promise<unknown>>
    patches.wrap(
      methods,
      name,
      (method) =>
        (...args) =>
          around(() => method(...args)),
    )
  }

  private batch(session: BatchSession): Ending {
    const local = new Patches()
    const end = this.ending(session)
    local.wrap(session, 'effects', (effects) => async (statements) => {
      const shot = await this.next('batches.effects')
      if (shot === null) return effects(statements)
      await end()
      return { kind: 'ended', index: 0, late: shot === 'deadline', error: errorOf(shot) }
    })
    local.wrap(
      session,
      'complete',
      (complete) => (items) => this.commit('batches.complete', () => complete(items), end),
    )
    return session
  }

  /** A statement that commits by itself. `done` notes what the process holds now. */
  private async alone<T>(
    name: string,
    call: () => Promise<T>,
    done: (value: T, process: SimulatedProcess) => void = () => undefined,
  ): Promise<T> {
    const { process } = this
    const shot = await this.next(name)
    if (shot !== null && shot !== 'lost-reply') throw errorOf(possibleFault(name, shot))
    const value = await call()
    const holder = shot === null ? process : new SimulatedProcess()
    done(value, holder)
    if (shot === null) return value
    this.orphan(holder)
    throw errorOf(shot)
  }

  /** Injects a fault into a call that opens a transaction. When the reply is lost, the server rolls back. */
  private async opening<T>(name: string, call: () => Promise<T>, opened: (value: T) => Ending): Promise<T> {
    const shot = await this.next(name)
    if (shot === 'fail-before' || shot === 'crash') throw errorOf(shot)
    const value = await call()
    const session = opened(value)
    if (shot === null) return value
    await session.rollback()
    throw errorOf(possibleFault(name, shot))
  }

  private async inside<T>(name: string, call: () => Promise<T>, end: () => Promise<void>): Promise<T> {
    const shot = await this.next(name)
    if (shot === null) return call()
    await end()
    throw errorOf(shot)
  }

  private async commit<T>(name: string, call: () => Promise<T>, end: () => Promise<void>): Promise<T> {
    const shot = await this.next(name)
    if (shot === null) return call()
    if (shot === 'lost-reply') await call()
    else await end()
    throw errorOf(shot, 'ONCE_COMMIT_UNKNOWN')
  }

  /** A dead process has no faults left: all its calls fail. */
  private async next(call: string): Promise<Fault | null> {
    const { process } = this
    if (process.isDead) return 'crash'
    const at = this.calls.push(call) - 1
    const fault = this.shots.find((shot) => shot.at === at)?.fault ?? null
    if (fault !== null) this.hits.push({ at, fault, call })
    if (fault === 'crash') {
      this.orphan(process)
      await process.die()
    }
    return fault
  }

  /** Its leases lapse before the next attempt. */
  private orphan({ leases, shards }: SimulatedProcess): void {
    this.orphans.push(...leases.splice(0))
    this.orphanShards.push(...shards.splice(0))
  }
}
