import { onceError } from '../../errors.ts'
import { invariant } from '../../invariant.ts'
import type { SomeInbox } from '../inbox.ts'
import type { NamedKind } from '../namespaces.ts'
import type { Outbox } from '../outbox.ts'
import type { Redrives } from '../redrives.ts'
import type { Session, Store } from '../store.ts'
import { namespacedInbox } from './inbox.ts'
import { hashedName, storedName } from './names.ts'
import { namespacedOutbox } from './outbox.ts'
import type { Own } from './own.ts'
import { namespacedRedrives } from './redrives.ts'

export interface OwnNamespaceOptions {
  readonly name: string
  /** Whether the instance has a catalogue. Then its operations need the namespace's number. */
  readonly publishes: boolean
  /** The number, if the caller knows it. Then nothing is registered. */
  readonly no?: number | undefined
}

/** Stands for a namespace without a number, which owns nothing. */
const NOBODY = -1

function nobodyIn(known: readonly unknown[]): number {
  return known.length === 0 ? 0 : NOBODY
}

/**
 * The namespace of one instance, and its parts of the store. The number is read before the first operation, relay or
 * consumer. Callers use the program's own names of consumers and destinations.
 */
export class OwnNamespace<Tx> implements Own {
  readonly name: string
  readonly outbox: Outbox | undefined
  readonly inbox: SomeInbox<Tx> | undefined
  readonly redrives: Redrives<Tx> | undefined
  readonly #store: Store<Tx>
  readonly #publishes: boolean
  #no: number | undefined
  #entering: Promise<number> | undefined
  #learning = false
  readonly #isGiven: boolean

  constructor(store: Store<Tx>, { name, publishes, no }: OwnNamespaceOptions) {
    this.name = name
    this.#store = store
    this.#publishes = publishes
    this.#no = store.namespaces ? no : 0
    this.#isGiven = this.#no !== undefined
    // Events commit with an effect, so a store without transactions has no outbox.
    const outbox = store.features.transactional ? store.outbox : undefined
    this.outbox = outbox && namespacedOutbox(outbox, this)
    this.inbox = store.inbox && namespacedInbox(store.inbox, this)
    this.redrives = store.redrives && namespacedRedrives(store.redrives, this)
  }

  /** Whether operations may publish, and the number is not known yet. */
  get pending(): boolean {
    return this.#no === undefined && this.#publishes
  }

  /** The number. An instance that publishes nothing may not know it. */
  get no(): number {
    invariant(this.#no !== undefined || !this.#publishes, 'a namespace was used before it had a number')
    return this.#no ?? 0
  }

  /** Returns the number. The first call registers the namespace with one statement. */
  async enter(): Promise<number> {
    if (this.#no !== undefined) return this.#no
    this.#entering ??= this.#register().finally(() => {
      this.#entering = undefined
    })
    return this.#entering
  }

  /**
   * The namespace of events that are published in an open transaction. If its number is unknown, it is registered
   * inside that transaction, which may still roll back. So the number is remembered only after it was read outside.
   */
  originIn(session: Session<Tx>): { readonly name: string; readonly no: number | (() => Promise<number>) } {
    const { namespaces } = this.#store
    if (!this.pending || !namespaces?.registerInside) return this
    const { name } = this
    const register = namespaces.registerInside.bind(namespaces)
    let asked: Promise<number> | undefined
    const no = (): Promise<number> => {
      asked ??= register(session, { name }).finally(() => void this.#learn())
      return asked
    }
    return { name, no }
  }

  /**
   * Returns the number without registering the namespace. If no namespace is registered, all rows belong to the first
   * one.
   */
  async look(): Promise<number> {
    if (this.#no !== undefined) return this.#no
    const known = (await this.#store.namespaces?.list()) ?? []
    // Another call may have registered it meanwhile. A number is never forgotten.
    this.#no ??= known.find(({ name }) => name === this.name)?.no
    return this.#no ?? nobodyIn(known)
  }

  /** The same inside an open transaction. It may have registered the namespace, and may still roll back. */
  async lookIn(session: Session<Tx>): Promise<number> {
    if (this.#no !== undefined) return this.#no
    const known = (await this.#store.namespaces?.listInside?.(session)) ?? []
    return known.find(({ name }) => name === this.name)?.no ?? nobodyIn(known)
  }

  async claim(kind: NamedKind, name: string): Promise<void> {
    // A server that was promoted may not know the number, and would give it to another namespace.
    const no = this.#isGiven ? this.no : await this.#register()
    if ((await this.#store.namespaces?.claim({ no, kind, name })) !== false) return
    throw onceError('ONCE_NAMESPACE_UNDECIDED', {
      detail: `The ${kind} '${name}' is older than the service '${this.name}' in this database, and its owner is not known. Start the service that owns it, or run: npx effectively-once migrate --adopt NAME`,
    })
  }

  stored(name: string): string {
    return storedName(this.no, name)
  }

  /** The consumer's name as a part of message ids. */
  hashed(consumer: string): string {
    return hashedName(this, consumer)
  }

  async #register(): Promise<number> {
    this.#no = (await this.#store.namespaces?.register({ name: this.name })) ?? 0
    return this.#no
  }

  async #learn(): Promise<void> {
    if (this.#learning) return
    this.#learning = true
    // If the registration is not committed yet, a later call reads the number.
    await this.look().catch(() => {})
    this.#learning = false
  }
}
