import { leasedParts } from '../../src/store/leased/parts.ts'
import type { Rows } from '../../src/store/leased/rows.ts'
import type { Store } from '../../src/store/store.ts'
import { KeyStore } from './key-store.ts'

/** Rows in memory: what Redis does in a script. */
export function memoryRows(): Rows & { readonly groups: Map<string, Map<string, string>> } {
  const groups = new Map<string, Map<string, string>>()
  const of = (group: string): Map<string, string> => {
    const fields = groups.get(group) ?? new Map<string, string>()
    groups.set(group, fields)
    return fields
  }
  return {
    groups,
    read: async (group, fields) => ({ values: fields.map((field) => of(group).get(field) ?? null), now: Date.now() }),
    async write(group, { expected, set, notAfter = Infinity }) {
      const fields = of(group)
      if (Date.now() > notAfter) return false
      for (const [field, value] of expected) if ((fields.get(field) ?? null) !== value) return false
      for (const [field, value] of set) {
        if (value === null) fields.delete(field)
        else fields.set(field, value)
      }
      return true
    },
  }
}

/** A store without transactions that can run leased consumers. */
export class RowStore extends KeyStore {
  readonly rows = memoryRows()
  readonly inbox: Store<undefined>['inbox']
  readonly redrives: Store<undefined>['redrives']
  readonly namespaces: Store<undefined>['namespaces']

  constructor() {
    super()
    const { inbox, redrives, namespaces } = leasedParts(this.rows, this)
    this.inbox = inbox
    this.redrives = redrives
    this.namespaces = namespaces
  }
}
