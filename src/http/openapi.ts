import type { Policy } from './policy.ts'

/** A part of an OpenAPI 3.1 document. */
export interface OpenapiFragment {
  readonly openapi: '3.1.0'
  readonly components: {
    readonly parameters: Readonly<Record<string, unknown>>
    readonly headers: Readonly<Record<string, unknown>>
    readonly schemas: Readonly<Record<string, unknown>>
    readonly responses: Readonly<Record<string, unknown>>
  }
  /** For each protected operation: its parameter, and the responses by status. */
  readonly operation: {
    readonly parameters: readonly { readonly $ref: string }[]
    readonly responses: Readonly<Record<string, { readonly $ref: string }>>
  }
}

/** Describes the policy as a fragment of an OpenAPI document. */
export function openapiOf(policy: Policy): OpenapiFragment {
  const statuses = [...new Set(policy.errors.map(({ status }) => status))].toSorted((a, b) => a - b)
  return {
    openapi: '3.1.0',
    components: {
      parameters: { IdempotencyKey: parameterOf(policy) },
      headers: {
        IdempotentReplayed: {
          description: 'Present on a stored answer that is replayed; the operation did not run again.',
          schema: { type: 'string', const: 'true' },
        },
        OriginalRequestId: {
          description: 'On a stored answer: the id of the request that ran the operation, if that request had an id.',
          schema: { type: 'string' },
        },
      },
      schemas: {
        IdempotencyProblem: {
          type: 'object',
          required: ['type', 'title', 'status', 'detail', 'code', 'retryable'],
          properties: {
            type: { type: 'string', format: 'uri-reference', enum: policy.errors.map(({ type }) => type) },
            title: { type: 'string' },
            status: { type: 'integer', enum: statuses },
            detail: { type: 'string' },
            code: { type: 'string', enum: policy.errors.map(({ code }) => code) },
            retryable: { type: 'boolean', description: 'Whether the same request may be sent again unchanged.' },
          },
        },
      },
      responses: Object.fromEntries(statuses.map((status) => [`Idempotency${status}`, responseOf(policy, status)])),
    },
    operation: {
      parameters: [{ $ref: '#/components/parameters/IdempotencyKey' }],
      responses: Object.fromEntries(
        statuses.map((status) => [String(status), { $ref: `#/components/responses/Idempotency${status}` }]),
      ),
    },
  }
}

function parameterOf({ header, required, key, retention }: Policy): unknown {
  return {
    name: header,
    in: 'header',
    required,
    description: `One key per operation, and the same key for every retry. A retry gets the stored answer for ${retention.replayFor} seconds.`,
    schema: {
      type: 'string',
      minLength: key.minLength,
      // A quoted key is two characters longer, and its quotes are no part of it.
      maxLength: key.maxLength + 2,
      ...(key.format === 'uuid' ? { format: 'uuid' } : {}),
    },
  }
}

function responseOf({ errors }: Policy, status: number): unknown {
  const rows = errors.filter((error) => error.status === status)
  const headers = {
    Link: { description: 'rel="describedby": what the problem means.', schema: { type: 'string' } },
    ...(rows.some(({ retryable }) => retryable)
      ? {
          'Retry-After': {
            description: 'Seconds to wait before a retry.',
            schema: { type: 'integer', minimum: 1 },
          },
        }
      : {}),
  }
  return {
    description: rows.map(({ title }) => title).join('. '),
    headers,
    content: { 'application/problem+json': { schema: { $ref: '#/components/schemas/IdempotencyProblem' } } },
  }
}
