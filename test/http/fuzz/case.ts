/** One handler and one stack on one adapter over one protocol: data, so that it can be sent, shrunk and printed. */
export interface Case {
  readonly seed: number
  readonly adapter: Adapter
  readonly protocol: Protocol
  readonly method: 'POST' | 'HEAD'
  /** HEAD passes by where the route does not protect it. */
  readonly protects: boolean
  readonly voice: VoiceName
  readonly stack: readonly Layer[]
  /** async, or a function that leaves everything to callbacks. */
  readonly isAsync: boolean
  readonly steps: readonly Step[]
}

export const ADAPTERS = [
  'node',
  'express 4',
  'express 5',
  'fastify',
  'koa',
  'nest on express',
  'nest on fastify',
  'hono',
  'fetch',
] as const
export type Adapter = (typeof ADAPTERS)[number]

export const PROTOCOLS = ['http/1.1', 'http/2'] as const
export type Protocol = (typeof PROTOCOLS)[number]

/** Where `node:http2` and its likeness of a response reach. */
export const OVER_HTTP2: readonly Adapter[] = ['node', 'koa', 'fastify']

/** The words in which a handler answers. */
export type VoiceName = 'raw' | 'express' | 'reply' | 'returned' | 'ctx' | 'hono' | 'web'

export const VOICES: Readonly<Record<Adapter, readonly VoiceName[]>> = {
  node: ['raw'],
  'express 4': ['express', 'raw'],
  'express 5': ['express', 'raw'],
  fastify: ['reply', 'returned', 'raw'],
  koa: ['ctx', 'raw'],
  'nest on express': ['returned', 'express'],
  'nest on fastify': ['returned', 'reply'],
  hono: ['hono'],
  fetch: ['web'],
}

export const LAYERS = [
  'helmet',
  'cors',
  'session',
  'compression',
  'timeout',
  'errors',
  'after',
  'envelope',
  'onSend',
  'failing onSend',
  'form',
] as const
export type Layer = (typeof LAYERS)[number]

const CONNECT: readonly Layer[] = ['helmet', 'cors', 'session', 'compression', 'timeout', 'after']

/** What each adapter has of them. */
export const STACKS: Readonly<Record<Adapter, readonly Layer[]>> = {
  node: CONNECT,
  'express 4': [...CONNECT, 'errors', 'form'],
  'express 5': [...CONNECT, 'errors', 'form'],
  fastify: LAYERS.filter((layer) => layer !== 'form'),
  koa: ['helmet', 'cors', 'session', 'compression', 'timeout', 'errors', 'after'],
  'nest on express': [...CONNECT, 'errors', 'envelope'],
  'nest on fastify': ['helmet', 'session', 'timeout', 'errors', 'after', 'envelope', 'onSend', 'failing onSend'],
  hono: ['helmet', 'cors', 'session', 'compression', 'errors', 'after', 'form'],
  fetch: ['errors', 'after'],
}

export type Step =
  | { readonly do: 'effect' }
  | { readonly do: 'turns'; readonly turns: number }
  /** Long enough for a timeout around the handler to answer. */
  | { readonly do: 'slow' }
  /** Still running past the deadline. */
  | { readonly do: 'stuck' }
  | { readonly do: 'header'; readonly name: string; readonly values: readonly string[] }
  | { readonly do: 'cookie'; readonly name: string }
  | { readonly do: 'answer'; readonly answer: Answer }
  | { readonly do: 'throw'; readonly status: number | null }
  /** Not awaited. */
  | { readonly do: 'later'; readonly ms: number; readonly steps: readonly Step[] }
  | { readonly do: 'destroy' }
  /** Writes into the list that a header stands in. */
  | { readonly do: 'enlist'; readonly name: string }
  | { readonly do: 'inform'; readonly how: 'continue' | 'processing' | 'hints' }

export type Answer =
  | { readonly is: 'json'; readonly status: number; readonly size: number }
  | { readonly is: 'text'; readonly status: number; readonly size: number }
  | { readonly is: 'bytes'; readonly status: number; readonly size: number }
  | { readonly is: 'pieces'; readonly status: number; readonly pieces: number }
  | {
      readonly is: 'stream'
      readonly status: number
      readonly size: number
      readonly failsAt: number | null
      readonly how: Piping
      /** Whether a Content-Length is announced. */
      readonly sized: boolean
    }
  | { readonly is: 'redirect'; readonly status: number }
  | { readonly is: 'empty'; readonly status: number }
  | { readonly is: 'file'; readonly status: number }
  | { readonly is: 'trailers'; readonly status: number }
  /** A Content-Length that is not the one of the bytes. */
  | { readonly is: 'misjudged'; readonly status: number; readonly says: number; readonly size: number }

export type Piping = 'pipe' | 'listener' | 'pipeline' | 'awaited'

export function isWeb({ adapter }: Pick<Case, 'adapter'>): boolean {
  return adapter === 'hono' || adapter === 'fetch'
}

/** Every step, those of callbacks too. */
export function allSteps(steps: readonly Step[]): Step[] {
  return steps.flatMap((step) => (step.do === 'later' ? [step, ...allSteps(step.steps)] : [step]))
}
