import { invalid } from '../options.ts'
import type { Observe } from '../observe/signal.ts'
import { isTypePatterns, matchesAny } from '../outbox/type-patterns.ts'
import type { Source } from '../source/source.ts'
import type { UnknownTypes } from './types.ts'

/**
 * Whether a message of a type without a handler is ignored. Otherwise it is parked, so that nothing is lost by default.
 */
export type Ignores = (type: string) => boolean

export function checkUnknown(unknown: UnknownTypes | undefined, from: Source<unknown>): Ignores {
  const wanted = unknown === undefined ? (from.unknown ?? 'park') : unknown
  if (wanted === 'park') return () => false
  if (wanted === 'ignore') return () => true
  const { ignore, ...others } = (wanted ?? {}) as { ignore?: unknown }
  if (Object.keys(others).length > 0 || !isTypePatterns(ignore)) {
    throw invalid(`unknown must be 'park', 'ignore' or { ignore: ['invoice.*'] }`)
  }
  return matchesAny(ignore)
}

/**
 * Types of the publisher's catalogue without a handler. The library cannot tell a forgotten type from an unwanted one.
 */
export function tellUnhandled({ name, from, handlers, ignores }: Reading, observe: Observe): void {
  const unhandled = (from.types ?? []).filter((type) => !handlers.has(type))
  for (const fate of ['parked', 'ignored'] as const) {
    const types = unhandled.filter((type) => ignores(type) === (fate === 'ignored'))
    if (types.length > 0) observe({ kind: 'unhandled', consumer: name, types, fate })
  }
}

interface Reading {
  readonly name: string
  readonly from: Source<unknown>
  readonly handlers: ReadonlyMap<string, unknown>
  readonly ignores: Ignores
}
