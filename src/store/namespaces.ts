import type { Session } from './session.ts'

/**
 * Who shares a database. Each namespace has a number: its events are in shards of its own, its consumers and destinations
 * are stored under names of their own. The first one gets 0, whose rows look as they did before there were numbers.
 */
export interface Namespaces<Tx> {
  /** The number of a namespace, which gets one when it has none. ONCE_NAMESPACES_FULL when there is none left. */
  register(params: { readonly name: string }): Promise<number>
  /** The same in somebody else's transaction: nobody may remember the number before that has committed. */
  registerInside(session: Session<Tx>, params: { readonly name: string }): Promise<number>
  /** By their numbers. */
  list(): Promise<readonly NamespaceRow[]>
  /** The same inside an open transaction, which may have registered a namespace. */
  listInside(session: Session<Tx>): Promise<readonly NamespaceRow[]>
  /**
   * Whether a namespace may use the name of a consumer or destination. What was there before namespaces is number 0's,
   * which settles that by using it; until then nothing tells that it is not another one's, and false is answered.
   */
  claim(params: ClaimNameParams): Promise<boolean>
}

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
