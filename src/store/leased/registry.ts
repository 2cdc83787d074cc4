import { onceError } from '../../errors.ts'
import { partsOf } from '../namespaced/names.ts'
import type { Namespaces } from '../namespaces.ts'
import { CONSUMERS, NAMESPACES, REGISTRY } from './fields.ts'
import { changing, reading, type Draft, type Rows } from './rows.ts'

const NAMESPACES_MAX = 1_024
/** A letter's `seq` contains the number of its consumer, so that it is unique among all consumers. */
export const CONSUMERS_MAX = 4_096

export type LeasedNamespaces = Pick<Namespaces<never>, 'register' | 'list' | 'claim'>

/** The namespaces of a store without transactions. There are no names from before namespaces. */
export function leasedNamespaces(rows: Rows): LeasedNamespaces {
  return {
    register: ({ name }) => enlisted(rows, NAMESPACES, name, NAMESPACES_MAX),
    list: async () => (await listed(rows, NAMESPACES)).map((name, no) => ({ no, name })),
    claim: () => Promise.resolve(true),
  }
}

/** Returns the number of a name, and assigns the next one to a new name. */
function enlisted(rows: Rows, field: string, name: string, max: number): Promise<number> {
  return changing(rows, REGISTRY, async (draft: Draft) => {
    const names = (await draft.get<string[]>(field)) ?? []
    const known = names.indexOf(name)
    if (known >= 0) return known
    if (names.length >= max) throw onceError('ONCE_NAMESPACES_FULL', { detail: `${max} ${field}` })
    draft.put(field, [...names, name])
    return names.length
  })
}

async function listed(rows: Rows, field: string): Promise<readonly string[]> {
  return (await reading<string[]>(rows, REGISTRY, [field]))[0] ?? []
}

export function consumerNo(rows: Rows, consumer: string): Promise<number> {
  return enlisted(rows, CONSUMERS, consumer, CONSUMERS_MAX)
}

export interface Registered {
  readonly consumer: string
  readonly no: number
}

/** The consumers of one namespace, or one consumer, with their numbers. */
export async function consumersOf(
  rows: Rows,
  { consumer, namespace }: { readonly consumer?: string | undefined; readonly namespace?: number | undefined },
): Promise<readonly Registered[]> {
  return (await listed(rows, CONSUMERS))
    .map((name, no) => ({ consumer: name, no }))
    .filter((of) => consumer === undefined || of.consumer === consumer)
    .filter((of) => namespace === undefined || partsOf(of.consumer).no === namespace)
}

/** The name of the namespace that a consumer belongs to. */
export async function namespaceOf(rows: Rows, consumer: string): Promise<string> {
  return (await listed(rows, NAMESPACES))[partsOf(consumer).no] ?? ''
}
