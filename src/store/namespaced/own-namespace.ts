import { onceError } from '../../errors.ts'
import { invariant } from '../../invariant.ts'
import type { Inbox } from '../inbox.ts'
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
  /** It has events to publish: whoever runs an operation must know the number. */
  readonly publishes: boolean
  /** The number, where whoever asks knows it already: nothing is registered. */
  readonly no?: number | undefined
}

/** Who has no number and looks for what is its own finds nothing. */
const NOBODY = -1

function nobodyIn(known: readonly unknown[]): number {
  return known.length === 0 ? 0 : NOBODY
}

/**
 * One instance's namespace: its number, learned before its first operation, relay or consumer, and what of the store is
 * its own. Consumers and destinations have the names the program gave them on this side.
 */
export class OwnNamespace<Tx> implements Own {
  readonly name: string
  readonly outbox: Outbox | undefined
  readonly inbox: Inbox<Tx> | undefined
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
    // Events commit with an effect: without transactions there is none.
    const outbox = store.features.transactional ? store.outbox : undefined
    this.outbox = outbox && namespacedOutbox(outbox, this)
    this.inbox = store.inbox && namespacedInbox(store.inbox, this)
    this.redrives = store.redrives && namespacedRedrives(store.redrives, this)
  }

  /** Its operations may publish, and nobody knows its number yet. */
  get pending(): boolean {
    return this.#no === undefined && this.#publishes
  }

  /** Who has nothing to publish need not know it. */
  get no(): number {
    invariant(this.#no !== undefined || !this.#publishes, 'a namespace was used before it had a number')
    return this.#no ?? 0
  }

  /** One statement, once. */
  async enter(): Promise<number> {
    if (this.#no !== undefined) return this.#no
    this.#entering ??= this.#register().finally(() => {
      this.#entering = undefined
    })
    return this.#entering
  }

  /**
   * Whose events they are that are published in somebody else's transaction. A number that nobody knows yet is asked for
   * there by whoever publishes, and learned beside it: the transaction may still roll back.
   */
  originIn(session: Session<Tx>): { readonly name: string; readonly no: number | (() => Promise<number>) } {
    const { namespaces } = this.#store
    if (!this.pending || !namespaces) return this
    const { name } = this
    let asked: Promise<number> | undefined
    const no = (): Promise<number> => {
      asked ??= namespaces.registerInside(session, { name }).finally(() => void this.#learn())
      return asked
    }
    return { name, no }
  }

  /** Nothing is registered. Where nobody is, what there is belongs to the first one. */
  async look(): Promise<number> {
    if (this.#no !== undefined) return this.#no
    const known = (await this.#store.namespaces?.list()) ?? []
    // It may have been entered meanwhile: a number is never forgotten.
    this.#no ??= known.find(({ name }) => name === this.name)?.no
    return this.#no ?? nobodyIn(known)
  }

  /** The same inside an open transaction, which may have registered the namespace, and may still roll back. */
  async lookIn(session: Session<Tx>): Promise<number> {
    if (this.#no !== undefined) return this.#no
    const known = (await this.#store.namespaces?.listInside(session)) ?? []
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

  /** A consumer's name as it goes into the ids of its messages. */
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
    // What was not committed yet is learned next time.
    await this.look().catch(() => {})
    this.#learning = false
  }
}
