import { invalid } from '../options.ts'
import type { InferInput, InferOutput, StandardSchemaV1 } from './standard-schema.ts'

/**
 * One entry of the catalogue: the data of an event type, and the aggregate within which its events keep their order.
 * The catalogue defines the aggregate once, because order breaks if two call sites choose different aggregates.
 */
export interface EventDef<Input = unknown, Output = Input> {
  readonly schema: StandardSchemaV1<Input, Output> | undefined
  aggregate(data: Output): string
  /** Missing in definitions that an older copy of this package made. */
  readonly options?: EventOptions<Output> | undefined
}

export interface EventOptions<D> {
  /** true: each event carries the id of its predecessor, so that consumers keep the order over any broker. */
  ordered?: boolean
  /** The media type of the data. Default 'application/octet-stream' for a Uint8Array, otherwise JSON */
  contentType?: string
  /**
   * Encodes the data, for example as protobuf or Avro. It may call a schema registry. If it throws, the operation
   * fails.
   */
  encode?: (data: D) => Uint8Array | Promise<Uint8Array>
  /**
   * Decodes the bytes for a consumer's handler. If it throws, the message fails as if its handler had thrown. `decode`
   * is not called for JSON.
   */
  decode?: (bytes: Uint8Array, event: DecodedFrom) => D | Promise<D>
}

/** The event whose bytes `decode` gets. */
export interface DecodedFrom {
  readonly type: string
  readonly headers: Readonly<Record<string, string>>
}

// oxlint-disable-next-line no-explicit-any -- a catalogue holds entries of every data type; unknown would refuse them all
export type Events = Record<string, EventDef<any, any>>

/** The data that `publish` takes for an entry. */
export type EventInput<D> = D extends EventDef<infer Input, infer _Output> ? Input : never

/** Defines an event type by a schema, or by a type alone: `event<{ id: number }>((charge) => String(charge.id))`. */
export function event<S extends StandardSchemaV1>(
  schema: S,
  aggregate: (data: InferOutput<S>) => string,
  options?: EventOptions<InferOutput<S>>,
): EventDef<InferInput<S>, InferOutput<S>>
export function event<D>(aggregate: (data: D) => string, options?: EventOptions<D>): EventDef<D>
export function event(...given: unknown[]): EventDef {
  const [schema, aggregate, options] = typeof given[1] === 'function' ? given : [undefined, ...given]
  if (typeof aggregate !== 'function') {
    throw invalid('event() needs a function that returns the aggregate')
  }
  if (schema !== undefined && typeof (schema as StandardSchemaV1)['~standard']?.validate !== 'function') {
    throw invalid('the schema of event() must be a Standard Schema (zod, valibot, arktype, …)')
  }
  return {
    schema: schema as StandardSchemaV1 | undefined,
    aggregate: aggregate as (data: unknown) => string,
    options: checkOptions(options),
  }
}

const OPTIONS = new Set(['ordered', 'contentType', 'encode', 'decode'])
const CONTENT_TYPE = /^[\w!#$&^.+-]+\/[\w!#$&^.+-]+(?:\s*;[\x20-\x7e]*)?$/

function checkOptions(options: unknown): EventOptions<unknown> {
  const given = (options ?? {}) as EventOptions<unknown>
  const { ordered, contentType, encode, decode } = given
  const unknown =
    typeof given === 'object' ? Object.keys(given).find((option) => !OPTIONS.has(option)) : 'it is not an object'
  const wrong =
    unknown ??
    (ordered === undefined || typeof ordered === 'boolean' ? undefined : 'ordered') ??
    (contentType === undefined || CONTENT_TYPE.test(contentType) ? undefined : 'contentType') ??
    (encode === undefined || typeof encode === 'function' ? undefined : 'encode') ??
    (decode === undefined || typeof decode === 'function' ? undefined : 'decode')
  if (wrong === undefined) return given
  throw invalid(`an option of event() is not valid: ${wrong.slice(0, 40)}`)
}
