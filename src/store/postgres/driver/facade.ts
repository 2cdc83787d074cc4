import { onceError } from '../../../errors.ts'
import type { OnceError } from '../../../errors.ts'
import type { TakeTurn } from '../../store.ts'
import type { PgClient } from './client.ts'
import { takesTransaction } from './control.ts'
import { isNamed, queryPrepared } from './frequent.ts'
import { linkOf } from './link.ts'
import type { PgDriverContext } from './context.ts'

/** The client behind a handle. Null: the handle was revoked. */
const LIVE: unique symbol = Symbol('effectively-once: client of a transaction handle')

const CONTEXT: unique symbol = Symbol('effectively-once: context of a transaction handle')

const TAKE_TURN: unique symbol = Symbol('effectively-once: turns of a transaction handle')

interface Facade {
  [LIVE]: PgClient | null
  [CONTEXT]: PgDriverContext
  [TAKE_TURN]: TakeTurn | undefined
}

const HIDDEN: readonly string[] = ['release', 'connect', 'end']

/**
 * A revocable handle on a client. It is an instance of the client's own class with the client's public members. Each
 * member first checks whether the handle is still valid.
 */
export function facadeOf(
  client: PgClient,
  context: PgDriverContext,
  takeTurn?: TakeTurn,
): { readonly tx: object; revoke(): void } {
  const tx = new (handleFor(client))(client, context, takeTurn)
  return {
    tx,
    revoke() {
      tx[LIVE] = null
    },
  }
}

/** The client behind `tx`, which may be our handle or the user's own client. */
export function clientBehind(tx: object): PgClient {
  return LIVE in tx ? liveOf(tx as Facade) : (tx as PgClient)
}

type Handle = new (client: PgClient, context: PgDriverContext, takeTurn: TakeTurn | undefined) => Facade

const handles = new WeakMap<object, Handle>()

/** One handle class per client class, made from the first client seen. */
function handleFor(client: PgClient): Handle {
  const base = Object.getPrototypeOf(client) as object
  let handle = handles.get(base)
  if (!handle) {
    const made = function (
      this: Facade,
      live: PgClient,
      context: PgDriverContext,
      takeTurn: TakeTurn | undefined,
    ): void {
      this[LIVE] = live
      this[CONTEXT] = context
      this[TAKE_TURN] = takeTurn
    }
    made.prototype = makePrototype(client, base)
    handle = made as unknown as Handle
    handles.set(base, handle)
  }
  return handle
}

function makePrototype(client: PgClient, base: object): object {
  const members: PropertyDescriptorMap = {}
  for (let layer: object = client; layer !== Object.prototype; layer = Object.getPrototypeOf(layer) as object) {
    for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(layer))) {
      if (name.startsWith('_') || name === 'constructor' || name in members) continue
      members[name] = typeof descriptor.value === 'function' ? forwarded(name) : delegated(name)
    }
  }
  for (const name of HIDDEN) members[name] = { value: refused(name) }
  members['query'] = { value: query }
  return Object.create(base, members) as object
}

function forwarded(name: string): PropertyDescriptor {
  return {
    value(this: Facade, ...args: unknown[]): unknown {
      const client = liveOf(this) as unknown as Record<string, (...args: unknown[]) => unknown>
      const result = client[name]?.(...args)
      return result === client ? this : result
    },
  }
}

function delegated(name: string): PropertyDescriptor {
  return {
    get(this: Facade): unknown {
      return (liveOf(this) as unknown as Record<string, unknown>)[name]
    },
  }
}

function refused(name: string): () => never {
  return () => {
    throw onceError('ONCE_TX_TAKEN', { detail: `tx.${name}() was called; the connection belongs to the operation` })
  }
}

function query(this: Facade, config: unknown, values?: unknown, callback?: unknown): unknown {
  const turn = this[TAKE_TURN]?.(() => inTurn(this, config, values, callback))
  if (turn) return answeredLater(turn, config, values, callback)
  const client = this[LIVE]
  if (client === null) return refuse(onceError('ONCE_TX_CLOSED'), config, values, callback)
  const text = typeof config === 'string' ? config : (config as { text?: unknown } | null | undefined)?.text
  if (typeof text === 'string' && takesTransaction(text)) {
    return refuse(onceError('ONCE_TX_TAKEN'), config, values, callback)
  }
  // Without values, pg prepares no plan. With a callback, pg answers in another way.
  if (typeof config === 'string' && Array.isArray(values) && values.length > 0 && !callback && !client.binary) {
    const context = this[CONTEXT]
    const link = linkOf(client)
    const name = context.prepared && link.way === 'grouped' ? context.frequent.nameOf(config) : ''
    if (name !== '') return queryPrepared(link, context, { name, text: config, values }, 'us')
  }
  if (values === undefined && !callback && isNamed(config)) {
    const context = this[CONTEXT]
    const link = linkOf(client)
    if (!client.binary && link.canRunNamed(config, context)) {
      const { name, text, values: own = [] } = config
      return queryPrepared(link, context, { name, text, values: own }, 'handler')
    }
  }
  return client.query(config, values, callback)
}

/** Sends a statement that waited, now that it is its turn. It is sent without its callback, which is called later. */
async function inTurn(facade: Facade, config: unknown, values: unknown, callback: unknown): Promise<unknown> {
  const direct: Facade = Object.create(facade, { [TAKE_TURN]: { value: undefined } })
  if (isSubmittable(config)) return void query.call(direct, config, values, callback)
  if (!answerOf(config, values, callback)) return query.call(direct, config, values)
  const plain = typeof config === 'object' && config !== null ? { ...config, callback: undefined } : config
  return query.call(direct, plain, typeof values === 'function' ? undefined : values)
}

function answeredLater(turn: Promise<unknown>, config: unknown, values: unknown, callback: unknown): unknown {
  if (isSubmittable(config)) {
    turn.catch((error: unknown) => (config as { handleError?(error: unknown): void }).handleError?.(error))
    return config
  }
  const answer = answerOf(config, values, callback)
  if (!answer) return turn
  turn.then(
    (result) => answer(null, result),
    (error: unknown) => answer(error),
  )
  return undefined
}

/** Refuses as pg does: a callback is called, a submittable throws, everything else is a rejected promise. */
function refuse(error: OnceError, config: unknown, values: unknown, callback: unknown): unknown {
  const answer = answerOf(config, values, callback)
  if (answer) {
    process.nextTick(answer, error)
    return undefined
  }
  if (isSubmittable(config)) throw error
  return Promise.reject(error)
}

type Answer = (error: unknown, result?: unknown) => void

/** The callback, in any position in which pg accepts one. */
function answerOf(config: unknown, values: unknown, callback: unknown): Answer | undefined {
  const given = config as { callback?: unknown } | null | undefined
  return [values, callback, given?.callback].find((candidate) => typeof candidate === 'function') as Answer | undefined
}

function isSubmittable(config: unknown): boolean {
  return typeof (config as { submit?: unknown } | null | undefined)?.submit === 'function'
}

function liveOf(facade: Facade): PgClient {
  const client = facade[LIVE]
  if (client === null) throw onceError('ONCE_TX_CLOSED')
  return client
}
