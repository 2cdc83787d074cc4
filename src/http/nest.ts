import type { CallHandler, DynamicModule, ExecutionContext, NestInterceptor } from '@nestjs/common'
import type { Observable } from 'rxjs'
import type { Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import type { Once } from '../once/types.ts'
import type { Events } from '../outbox/event.ts'
import { createContext } from '../platform/context.ts'
import { bind } from './bound.ts'
import { nestExchange, type NestRequest } from './nest-exchange.ts'
import { inject, injectable, paramDecorator, readMetadata, setMetadata, useInterceptor } from './nest-metadata.ts'
import type { AnyOperation } from './exchange.ts'
import { serve } from './node.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { type Documented, documentsOf } from './policy.ts'
import type { Protection } from './protection.ts'

const ONCE = Symbol.for('effectively-once')
const WORKSHOP = Symbol.for('effectively-once/nest')
const ROUTE = 'effectively-once:route'
const OPERATION = Symbol('effectively-once operation')

// oxlint-disable-next-line no-explicit-any -- a request of Express or Fastify, with what guards put on it
export type NestOptions = IdempotencyOptions<any>

interface Workshop {
  readonly protectionOf: (handler: object) => Protection<unknown, Events, NestRequest>
  readonly context: OnceContext
}

/** The operation around the current call, for services too deep to be handed one. */
export class OnceContext {
  readonly #running = createContext<AnyOperation>()

  run<R>(op: AnyOperation, work: () => R): R {
    return this.#running.run(op, work)
  }

  /** ONCE_TX_REQUIRED outside an idempotent handler. */
  // oxlint-disable-next-line no-unnecessary-type-parameters -- the caller knows which operation it is in
  current<O = AnyOperation>(): O {
    const op = this.#running.get()
    if (!op) throw onceError('ONCE_TX_REQUIRED', { detail: 'OnceContext.current() was called outside a handler' })
    return op as O
  }
}

/** Runs the handler as an operation, and holds what Nest answers until the commit. */
export class IdempotencyInterceptor implements NestInterceptor {
  readonly #workshop: Workshop

  constructor(workshop: Workshop) {
    this.#workshop = workshop
  }

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const { protectionOf, context: ambient } = this.#workshop
    const http = context.switchToHttp()
    const request = http.getRequest<NestRequest & { [OPERATION]?: AnyOperation }>()
    const pattern = `${request.method} ${context.getClass().name}.${context.getHandler().name}`
    const { exchange, rest } = nestExchange(request, http.getResponse(), pattern, (op) => {
      request[OPERATION] = op
      return ambient.run(op, () => lastOf(next.handle()))
    })
    serve(protectionOf(context.getHandler()), exchange)
    // Nest takes whatever can be observed; one value in a list is the simplest of them.
    return [await rest] as unknown as Observable<unknown>
  }
}

/** @Idempotent() on a method of a controller: its handler gets the operation by @Op(). */
export function Idempotent<const L extends Duration | undefined = undefined>(
  options?: RouteOptions<NestRequest, L>,
): MethodDecorator {
  return (_target, _property, descriptor) => {
    const handler = descriptor.value as object
    declareInterceptor()
    setMetadata(ROUTE, options, handler)
    useInterceptor(IdempotencyInterceptor, handler)
  }
}

/** The operation, as a parameter: `create(@Body() body: Order, @Op() { tx }: OpOf<typeof once>)`. */
export const Op: () => ParameterDecorator = paramDecorator((_data, context: ExecutionContext) => {
  return context.switchToHttp().getRequest<{ [OPERATION]?: AnyOperation }>()[OPERATION]
})

/** The instance given to `OnceModule.forRoot`. */
export function InjectOnce(): ParameterDecorator & PropertyDecorator {
  return (target: object, property: string | symbol | undefined, index?: number) =>
    inject(ONCE, target, property, index)
}

// oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
export class OnceModule {
  static forRoot<Tx, E extends Events>({ once, ...options }: NestOptions & { once: Once<Tx, E> }): DynamicModule {
    declareInterceptor()
    const bound = bind(once, options)
    const known = new WeakMap<object, Protection<Tx, E, NestRequest>>()
    const context = new OnceContext()
    const workshop = {
      context,
      protectionOf(handler: object): Protection<Tx, E, NestRequest> {
        let protection = known.get(handler)
        if (!protection) {
          protection = bound(readMetadata(ROUTE, handler) as RouteOptions<NestRequest> | undefined)
          known.set(handler, protection)
        }
        return protection
      },
    }
    return {
      module: OnceModule,
      global: true,
      providers: [
        { provide: ONCE, useValue: once },
        { provide: WORKSHOP, useValue: workshop },
        { provide: OnceContext, useValue: context },
      ],
      exports: [ONCE, WORKSHOP, OnceContext],
    }
  }

  /** The policy document and the OpenAPI fragment of these options. */
  static documents<Tx, E extends Events>({ once, ...options }: NestOptions & { once: Once<Tx, E> }): Documented {
    return documentsOf(bind(once, options)())
  }
}

let declared = false

/** Late, because Nest brings the metadata along and may be loaded after this file. */
function declareInterceptor(): void {
  if (declared) return
  declared = true
  injectable(IdempotencyInterceptor, 1)
  inject(WORKSHOP, IdempotencyInterceptor, undefined, 0)
}

/** What a handler returned, once: Nest takes the last value of an observable too. */
function lastOf(source: Observable<unknown>): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let last: unknown
    source.subscribe({ next: (value) => (last = value), error: reject, complete: () => resolve(last) })
  })
}
