import { onceError } from '../../errors.ts'
import type { OnceCode } from '../../errors.ts'
import type { Batches, BatchSession, Held, Leases, SqlSession, SqlStore } from '../../store/store.ts'
import type { Fault, Hit, Shot } from './fault.ts'
import { Patches } from './patches.ts'

interface Ending {
  rollback(): Promise<void>
}

const STATEMENTS = ['claim', 'reread', 'renew', 'read', 'completeInside', 'append', 'savepoint'] as const
const COMMITS = ['complete', 'completeStep'] as const
const ALONE = ['finish', 'steps', 'startStep', 'finishStep', 'suspend'] as const

/** Stands between an instance and its store, on the very objects: whoever holds them is reached. */
export class Injector {
  readonly hits: Hit[] = []
  /** The calls since the last `arm`, by name. */
  readonly calls: string[] = []
  private readonly patches = new Patches()
  private readonly store: SqlStore<unknown>
  private shots: readonly Shot[] = []
  /** Leases nobody knows of, because the reply that gave them was lost. */
  private orphans: Held[] = []

  constructor(store: SqlStore<unknown>) {
    this.store = store
    this.patchStore()
    this.patchLeases(store.leases)
    if (store.batches) this.patchBatches(store.batches)
  }

  arm(shots: readonly Shot[]): void {
    this.shots = shots
    this.hits.length = 0
    this.calls.length = 0
  }

  /** What waiting for the lease would do, without the wait. */
  async letLapse(): Promise<void> {
    const release = this.patches.original(this.store.leases, 'release')
    for (const held of this.orphans.splice(0)) await release(held)
  }

  remove(): void {
    this.patches.remove()
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
      this.statements(session, { rollback: () => Promise.resolve() })
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
          ({ claimed }) => this.orphan(params.claim.id, claimed?.token),
        ),
    )
    patches.wrap(
      leases,
      'takeOver',
      (takeOver) => (params) =>
        this.alone(
          'leases.takeOver',
          () => takeOver(params),
          (claimed) => this.orphan(params.claim.id, claimed?.token),
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

  private session(session: SqlSession<unknown>): Ending {
    this.statements(session, session)
    return session
  }

  private statements(session: SqlSession<unknown>, ending: Ending): void {
    const local = new Patches()
    const rollback = session.rollback.bind(session)
    const end = ending === session ? rollback : () => ending.rollback()
    for (const name of STATEMENTS) this.every(local, session, name, (call) => this.inside(name, call, end))
    for (const name of COMMITS) this.every(local, session, name, (call) => this.commit(name, call, end))
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
    const end = session.rollback.bind(session)
    local.wrap(session, 'effects', (effects) => async (statements) => {
      const shot = this.next('batches.effects')
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

  /** A statement that commits by itself. */
  private async alone<T>(name: string, call: () => Promise<T>, lost: (value: T) => void = () => undefined): Promise<T> {
    const shot = this.next(name)
    if (shot === null) return call()
    if (shot === 'lost-reply') lost(await call())
    throw errorOf(shot)
  }

  /** A call that opens a transaction: when its reply is lost, the server rolls back. */
  private async opening<T>(name: string, call: () => Promise<T>, opened: (value: T) => Ending): Promise<T> {
    const shot = this.next(name)
    if (shot === 'fail-before') throw errorOf(shot)
    const value = await call()
    const session = opened(value)
    if (shot === null) return value
    await session.rollback()
    throw errorOf(shot)
  }

  private async inside<T>(name: string, call: () => Promise<T>, end: () => Promise<void>): Promise<T> {
    const shot = this.next(name)
    if (shot === null) return call()
    await end()
    throw errorOf(shot)
  }

  private async commit<T>(name: string, call: () => Promise<T>, end: () => Promise<void>): Promise<T> {
    const shot = this.next(name)
    if (shot === null) return call()
    if (shot === 'lost-reply') await call()
    else await end()
    throw errorOf(shot, 'ONCE_COMMIT_UNKNOWN')
  }

  private next(call: string): Fault | null {
    const at = this.calls.push(call) - 1
    const fault = this.shots.find((shot) => shot.at === at)?.fault ?? null
    if (fault !== null) this.hits.push({ at, fault, call })
    return fault
  }

  private orphan(id: string, token: string | undefined): void {
    if (token !== undefined) this.orphans.push({ id, token })
  }
}

function errorOf(fault: Fault, unsure: OnceCode = 'ONCE_STORE_UNAVAILABLE'): Error {
  return onceError(fault === 'deadline' ? 'ONCE_DEADLINE' : unsure, { detail: `simulated: ${fault}` })
}
