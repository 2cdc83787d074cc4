import { onceError } from '../errors.ts'
import type { InferInput, InferOutput, StandardSchemaV1 } from './standard-schema.ts'

/**
 * One entry of the catalogue: what an event's data is, and which aggregate keeps it in order. The catalogue decides the
 * aggregate once, because order breaks where two call sites choose two.
 */
export interface EventDef<Input = unknown, Output = Input> {
  readonly schema: StandardSchemaV1<Input, Output> | undefined
  aggregate(data: Output): string
}

// oxlint-disable-next-line no-explicit-any -- a catalogue holds entries of every data type; unknown would refuse them all
export type Events = Record<string, EventDef<any, any>>

/** What `publish` takes for an entry. */
export type EventInput<D> = D extends EventDef<infer Input, infer _Output> ? Input : never

/** With a schema, or with a type alone: `event<{ id: number }>((charge) => String(charge.id))`. */
export function event<S extends StandardSchemaV1>(
  schema: S,
  aggregate: (data: InferOutput<S>) => string,
): EventDef<InferInput<S>, InferOutput<S>>
export function event<D>(aggregate: (data: D) => string): EventDef<D>
export function event(first: unknown, second?: unknown): EventDef {
  const schema = second === undefined ? undefined : first
  const aggregate = second ?? first
  if (typeof aggregate !== 'function') {
    throw onceError('ONCE_OPTION_INVALID', { detail: 'event() needs a function that returns the aggregate' })
  }
  if (schema !== undefined && typeof (schema as StandardSchemaV1)['~standard']?.validate !== 'function') {
    throw onceError('ONCE_OPTION_INVALID', {
      detail: 'event() needs a Standard Schema (zod, valibot, arktype, …) or none',
    })
  }
  return { schema: schema as StandardSchemaV1 | undefined, aggregate: aggregate as (data: unknown) => string }
}
