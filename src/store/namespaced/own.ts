import type { NamedKind } from '../namespaces.ts'

/** What the parts of a store need from their namespace. */
export interface Own {
  /** Known after `enter`. */
  readonly no: number
  /** Returns the number, and registers the namespace if it has none. */
  enter(): Promise<number>
  /** Returns the number without registering. Negative: this namespace has none, but others have. */
  look(): Promise<number>
  /** Claims a name for this namespace. */
  claim(kind: NamedKind, name: string): Promise<void>
  stored(name: string): string
}
