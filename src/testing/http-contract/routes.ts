import { final } from '../../operation/final.ts'
import type { LeasedOperation, Operation } from '../../operation/types.ts'
import type { Events } from '../../outbox/event.ts'

/** The response of a contract handler, before any framework has changed it. */
export interface ContractAnswer {
  readonly status: number
  readonly headers?: readonly (readonly [name: string, value: string])[]
  readonly body?: Uint8Array | string | null
  /** Sends the body in this many chunks, without a Content-Length. */
  readonly pieces?: number
}

/** The parts of a request that a contract handler reads. */
export interface ContractRequest {
  /** The body as the handler can read it: the raw text, or the parsed body as JSON text. */
  readonly body: string
  /** The user's name from the header `x-user`. The server uses it as the scope of keys. */
  readonly user: string
}

/** The only method of a transaction that the contract needs. `$1` is the first value. */
export interface ContractTx {
  query(sql: string, values?: unknown[]): Promise<unknown>
}

export type ContractOperation = Pick<Operation<ContractTx, Events>, 'tx' | 'key' | 'signal'>
export type ContractLeased = Pick<LeasedOperation<ContractTx, Events>, 'step' | 'key'>

/** The options with which a route is registered. Every adapter supports these options. */
export interface ContractOptions {
  readonly required?: boolean
  readonly keep4xx?: boolean
  readonly refusals?: 'store' | 'release'
  readonly methods?: readonly string[]
  readonly keepHeaders?: readonly string[]
  readonly inFlight?: { readonly waitFor: `${number}s` }
  readonly deadline?: `${number}ms`
  readonly streams?: 'buffer' | 'refuse'
}

/**
 * One route of a server under test. Register each route for POST, PATCH and DELETE. `lease` selects the second shape.
 */
export type ContractRoute =
  | {
      readonly path: string
      readonly options: ContractOptions
      readonly lease?: undefined
      /**
       * Resolves with null when the handler returns without a response. Throws on the routes that test thrown errors.
       */
      handle(request: ContractRequest, op: ContractOperation): Promise<ContractAnswer | null>
    }
  | {
      readonly path: string
      readonly options: ContractOptions
      readonly lease: '5s'
      before(op: ContractLeased, request: ContractRequest): Promise<void>
      commit(op: ContractOperation, request: ContractRequest): Promise<ContractAnswer>
    }

/** Thrown by routes whose status the framework's own error handling decides. */
export class ContractError extends Error {
  readonly status: number
  readonly statusCode: number
  readonly expose = true

  constructor(status: number) {
    super(`refused with ${status}`)
    this.status = status
    this.statusCode = status
  }
}

/** Creates the table that the server under test must have. */
export const CONTRACT_TABLE = 'create table contract_effect (route varchar(100) not null, key varchar(255) not null)'
export const CONTRACT_COUNT = 'select count(*) as n from contract_effect where key = $1'

export const BINARY: Uint8Array = Uint8Array.from({ length: 256 }, (_, i) => i)
/** BIG_BYTES is over the limit of a stored response. HUGE_BYTES is also over the limit of a response held in memory. */
export const BIG_BYTES: number = 1024 * 1024 + 1
export const HUGE_BYTES: number = 8 * 1024 * 1024 + 1
export const SLOW_MS = 400

const JSON_TYPE = ['content-type', 'application/json'] as const

/** Every route of the contract. `ran` is called with the key for each run of a handler, and returns the count. */
export function contractRoutes(ran: (key: string) => number): readonly ContractRoute[] {
  const atomic = (
    path: string,
    answer: (request: ContractRequest, op: ContractOperation, runs: number) => Promise<ContractAnswer | null>,
    options: ContractOptions = {},
  ): ContractRoute => ({
    path,
    options,
    async handle(request, op) {
      const runs = ran(op.key)
      await effect(op, path)
      return answer(request, op, runs)
    },
  })
  const leased = (path: string, status: number): ContractRoute => ({
    path,
    options: {},
    lease: '5s',
    async before({ step, key }) {
      ran(key)
      await step('outside', async (s) => s.key)
    },
    async commit(op) {
      await effect(op, path)
      return { status, headers: [JSON_TYPE], body: JSON.stringify({ leased: op.key }) }
    },
  })
  return [
    atomic('/orders', async ({ body }, _op, runs) => order(body, runs), { keepHeaders: ['X-Kept'] }),
    atomic('/refunds', async ({ body }, _op, runs) => order(body, runs)),
    atomic('/empty', async () => ({ status: 201 })),
    atomic('/no-content', async () => ({ status: 204 })),
    atomic('/not-modified', async () => ({ status: 304, headers: [['etag', '"abc"']] })),
    atomic('/moved', async () => ({ status: 303, headers: [['location', '/elsewhere']] })),
    atomic('/binary', async () => ({
      status: 200,
      headers: [['content-type', 'application/octet-stream']],
      body: BINARY,
    })),
    atomic('/echo', async ({ body }) => ({ status: 200, headers: [['content-type', 'text/plain']], body })),
    atomic('/pieces', async () => ({
      status: 200,
      headers: [['content-type', 'text/plain']],
      body: 'abcdef',
      pieces: 3,
    })),
    atomic('/pieces-refused', async () => ({ status: 200, body: 'abcdef', pieces: 3 }), { streams: 'refuse' }),
    atomic('/events', async () => ({
      status: 200,
      headers: [['content-type', 'text/event-stream']],
      body: 'data: 1\n\n',
    })),
    atomic('/big', async () => ({ status: 200, body: new Uint8Array(BIG_BYTES).fill(7) })),
    atomic('/huge', async () => ({ status: 200, body: new Uint8Array(HUGE_BYTES).fill(7) })),
    atomic('/status', async ({ body }) => ({ status: Number(body), headers: [JSON_TYPE], body: '{}' })),
    atomic('/kept', async () => ({ status: 402, headers: [JSON_TYPE], body: '{"declined":true}' }), { keep4xx: true }),
    atomic('/released', async ({ body }) => ({ status: Number(body), headers: [JSON_TYPE], body: '{}' }), {
      refusals: 'release',
    }),
    atomic(
      '/released-throws',
      async ({ body }) => {
        throw new ContractError(Number(body))
      },
      { refusals: 'release' },
    ),
    atomic(
      '/final',
      async ({ body }) => {
        throw final({ status: Number(body), body: { final: true } })
      },
      { refusals: 'release' },
    ),
    atomic('/removed', async () => ({ status: 204 }), { methods: ['DELETE'] }),
    atomic('/named', async () => ({ status: 201, headers: [['x-request-id', 'said-by-the-answer']], body: '{}' })),
    atomic('/throws', async () => {
      throw new Error('a mistake of the handler')
    }),
    atomic('/throws-status', async ({ body }) => {
      throw new ContractError(Number(body))
    }),
    atomic('/nothing', async () => null, { deadline: '500ms' }),
    atomic('/optional', async ({ body }, _op, runs) => order(body, runs), { required: false }),
    atomic('/slow', slow),
    atomic('/waits', slow, { inFlight: { waitFor: '20s' } }),
    atomic(
      '/late',
      async ({ body }, _op, runs) => {
        await pause(SLOW_MS)
        return order(body, runs)
      },
      { deadline: '100ms' },
    ),
    leased('/lease', 201),
    leased('/lease-refused', 402),
  ]
}

/** The request body of the batched route: the row to insert, and the status to answer with. */
export interface ContractBatched {
  /** null violates a constraint. */
  readonly id: string | null
  readonly status?: number
  /** The handler returns its response as a promise, which resolves or rejects. */
  readonly later?: 'answers' | 'rejects'
}

/** The route POST /batched, for adapters that have batched routes. */
export const contractBatched: {
  parse(body: unknown): ContractBatched
  statement(input: ContractBatched): { sql: string; values: unknown[] }
  respond(rows: unknown, input: ContractBatched): BatchedMade | Promise<BatchedMade>
} = {
  parse: (body: unknown): ContractBatched => body as ContractBatched,
  statement: ({ id }: ContractBatched): { sql: string; values: unknown[] } => ({
    sql: 'insert into contract_effect (route, key) values ($1, $2)',
    values: ['/batched', id],
  }),
  respond: (_rows, { id, status = 201, later }) => {
    const made = { status, headers: { location: `/batched/${id}` }, body: { id } }
    if (later === 'rejects') return Promise.reject(new RangeError('no answer'))
    return later ? Promise.resolve(made) : made
  },
}

interface BatchedMade {
  readonly status: number
  readonly headers: { readonly location: string }
  readonly body: { readonly id: string | null }
}

async function slow({ body }: ContractRequest, _op: ContractOperation, runs: number): Promise<ContractAnswer> {
  await pause(SLOW_MS)
  return order(body, runs)
}

function effect({ tx, key }: ContractOperation, path: string): Promise<unknown> {
  return tx.query('insert into contract_effect (route, key) values ($1, $2)', [path, key])
}

/** A response with every part that is replayed, and every part that is not. */
function order(body: string, runs: number): ContractAnswer {
  return {
    status: 201,
    headers: [
      JSON_TYPE,
      ['location', '/orders/1'],
      ['etag', '"1"'],
      ['content-language', 'de'],
      ['last-modified', 'Tue, 01 Jan 2030 00:00:00 GMT'],
      ['link', '</orders/1>; rel="self"'],
      ['set-cookie', 'session=secret'],
      ['x-kept', 'yes'],
      ['x-not-kept', 'no'],
    ],
    body: JSON.stringify({ runs, body }),
  }
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
