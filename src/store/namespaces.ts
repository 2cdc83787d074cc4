import type { Session } from './session.ts'

/**
 * The namespaces that share a database. Each has a number, its own shards, and its own stored names for consumers and
 * destinations. The first namespace gets number 0, whose rows look as they did before namespaces existed.
 */
export interface Namespaces<Tx> {
  /**
   * Returns the number of a namespace, and assigns one if it has none. Throws ONCE_NAMESPACES_FULL if all are taken.
   */
  register(params: { readonly name: string }): Promise<number>
  /** The same inside an open transaction. The number must not be remembered before that transaction has committed. */
  registerInside(session: Session<Tx>, params: { readonly name: string }): Promise<number>
  /** Lists namespaces in the order of their numbers. */
  list(): Promise<readonly NamespaceRow[]>
  /** The same inside an open transaction, which may have registered a namespace. */
  listInside(session: Session<Tx>): Promise<readonly NamespaceRow[]>
  /**
   * Whether a namespace may use the name of a consumer or destination. Names from before namespaces belong to number 0,
   * but their owner is known only after number 0 has used them. Until then, other namespaces get false.
   */
  claim(params: ClaimNameParams): Promise<boolean>
}

/** Without transactions, no namespace is registered inside one. */
export type SomeNamespaces<Tx> = Pick<Namespaces<Tx>, 'register' | 'list' | 'claim'> & Partial<Namespaces<Tx>>

export interface NamespaceRow {
  readonly no: number
  readonly name: string
}

export interface ClaimNameParams {
  readonly no: number
  readonly kind: NamedKind
  readonly name: string
}

export type NamedKind = 'consumer' | 'destination'
