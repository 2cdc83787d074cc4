import type { NamedKind } from '../namespaces.ts'

/** What the parts of a store ask of the namespace they serve. */
export interface Own {
  /** Known once it was entered. */
  readonly no: number
  /** The number; it gets one when it has none. */
  enter(): Promise<number>
  /** The number for whoever only looks: below 0 where it has none and others have. */
  look(): Promise<number>
  /** Settles that a name is this namespace's to use. */
  claim(kind: NamedKind, name: string): Promise<void>
  stored(name: string): string
}
