import type { CallHandler, DynamicModule, ExecutionContext, NestInterceptor } from '@nestjs/common'
import type { Observable, Subscription } from 'rxjs'
import type { Duration } from '../duration.ts'
import { onceError } from '../errors.ts'
import type { ClosableServer } from '../once/closing-server.ts'
import type { Once } from '../once/types.ts'
import type { RetentionOptions } from '../operation/retention-terms.ts'
import type { Events } from '../outbox/event.ts'
import { createContext } from '../platform/context.ts'
import { type AnswerBatched, type BatchedRoute, batchedOf } from './batched.ts'
import { bind, cannotRecord, noHandler, optionsAndHandler } from './bound.ts'
import { nestExchange, type NestRequest } from './nest-exchange.ts'
import { inject, injectable, paramDecorator, readMetadata, setMetadata, useInterceptor } from './nest-metadata.ts'
import type { AnyOperation } from './exchange.ts'
import { serve } from './node.ts'
import { passingOperation } from './passing.ts'
import type { IdempotencyOptions, RouteOptions } from './options.ts'
import { type Documented, documentsOf } from './documents.ts'
import type { ProtectedRoute } from './protected-route.ts'

const NAME = 'Nest'
const ONCE = Symbol.for('effectively-once')
const WORKSHOP = Symbol.for('effectively-once/nest')
const ROUTE = 'effectively-once:route'
const BATCHED = 'effectively-once:batched'
const OPERATION = Symbol('effectively-once operation')
const METHOD = Symbol('effectively-once method')

/** `Req` is the request with what your guards put on it: annotate the parameter of `scope`. */
export interface NestOptions<Req = NestRequest> extends IdempotencyOptions<Req> {
  /**
   * The application closes its HTTP server and then the instance within this time. false: you close the instance.
   * Default '10s'
   */
  closeWithin?: Duration | false
}

/** The options of `forRoot`, made by a factory from other providers. */
export interface NestAsyncOptions<Tx, E extends Events, Req = NestRequest> extends Pick<DynamicModule, 'imports'> {
  /** The providers that `useFactory` gets, in this order. */
  inject?: unknown[]
  useFactory: (
    // oxlint-disable-next-line no-explicit-any -- typed where users write it
    ...providers: any[]
  ) => (NestOptions<Req> & { once: Once<Tx, E> }) | Promise<NestOptions<Req> & { once: Once<Tx, E> }>
}

/** One idempotent method of a controller, with the options of its decorator. */
interface Served {
  readonly protection: ProtectedRoute<unknown, Events, NestRequest>
  readonly batched: AnswerBatched<NestRequest> | undefined
}

interface Workshop {
  readonly once: unknown
  readonly servedOf: (handler: object) => Served
  readonly context: OnceContext
  /** Nest calls this method on every provider that has it. */
  onModuleInit(): void
  close(server: ClosableServer | undefined): Promise<void>
}

/** The part of Nest's middleware builder that is used here. */
interface WithAdapter {
  getHttpAdapter?(): { getHttpServer(): ClosableServer | undefined }
}

/** Gives services the current operation, so that callers need not pass it. */
export class OnceContext {
  readonly #running = createContext<AnyOperation>()

  run<R>(op: AnyOperation, work: () => R): R {
    return this.#running.run(op, work)
  }

  /** Returns the current operation. Throws ONCE_TX_REQUIRED outside an idempotent handler. */
  // oxlint-disable-next-line no-unnecessary-type-parameters -- the caller knows which operation it is in
  current<O = AnyOperation>(): O {
    const op = this.#running.get()
    if (!op) throw onceError('ONCE_TX_REQUIRED', { detail: 'OnceContext.current() was called outside a handler' })
    return op as O
  }
}

/** Runs the handler as an operation, and holds Nest's answer until the commit. */
export class IdempotencyInterceptor implements NestInterceptor {
  readonly #workshop: Workshop

  constructor(workshop: Workshop) {
    this.#workshop = workshop
  }

  async intercept(context: ExecutionContext, next: CallHandler): Promise<Observable<unknown>> {
    const { servedOf, context: ambient } = this.#workshop
    const http = context.switchToHttp()
    const request = http.getRequest<NestRequest & { [OPERATION]?: AnyOperation; [METHOD]?: () => Promise<unknown> }>()
    const pattern = `${request.method} ${context.getClass().name}.${context.getHandler().name}`
    const { protection, batched } = servedOf(context.getHandler())
    // Nest itself handles a returned reply, and values without an end.
    if (!batched && !protection.protects(request.method)) {
      const op = (request[OPERATION] = passingOperation(request.method))
      return ambient.run(op, () => next.handle())
    }
    let running: Subscription | undefined
    const method = (): Promise<unknown> => lastOf(next.handle(), (subscription) => (running = subscription))
    if (batched) request[METHOD] = () => method().then((input) => (input === NOTHING ? undefined : input))
    const handle = async (op: AnyOperation): Promise<unknown> => {
      if (batched) return noHandler(op)
      request[OPERATION] = op
      return ambient.run(op, method)
    }
    const { exchange, rest } = nestExchange(request, http.getResponse(), pattern, handle, http.getNext())
    void serve(protection, exchange, batched)
    // Nest accepts any observable input. A list is the simplest.
    try {
      const value = await rest
      return (value === NOTHING ? [] : [value]) as unknown as Observable<unknown>
    } finally {
      // Stop listening at the deadline, because the value may have no end.
      running?.unsubscribe()
    }
  }
}

/** Put `@Idempotent()` on a method of a controller. The method gets the operation by `@Op()`. */
export interface IdempotentDecorator {
  <const L extends Duration | undefined = undefined, Req = NestRequest>(options?: RouteOptions<Req, L>): MethodDecorator
  /**
   * A route whose effect is one statement per request; see `once.batched`. The method, with its pipes, returns the
   * input of `statement` and `respond`. It has no operation, and may run more than once for one key.
   */
  batched<I>(work: MethodWork<I>): BatchedDecorator<I>
  batched<I>(options: RouteOptions<NestRequest>, work: MethodWork<I>): BatchedDecorator<I>
}

export type MethodWork<I> = Omit<BatchedRoute<NestRequest, I, Events>, 'parse'>
export type BatchedDecorator<I> = <Method extends (...args: never[]) => I | Promise<I>>(
  target: object,
  property: string | symbol,
  descriptor: TypedPropertyDescriptor<Method>,
) => void
// oxlint-disable-next-line no-explicit-any -- typed where users write it
type Batched = BatchedRoute<NestRequest, any, any>

export const Idempotent: IdempotentDecorator = Object.assign(
  <Req>(options?: RouteOptions<Req, Duration | undefined>): MethodDecorator =>
    (_target, _property, descriptor) =>
      decorate(descriptor.value as object, options as RouteOptions<NestRequest, Duration | undefined> | undefined),
  {
    batched: <I>(first: MethodWork<I> | RouteOptions<NestRequest>, second?: MethodWork<I>): BatchedDecorator<I> => {
      const [options, work] = optionsAndHandler<RouteOptions<NestRequest>, MethodWork<I>>(first, second)
      const parse: Batched['parse'] = (_body, request) => Reflect.get(request, METHOD)()
      return (_target, _property, descriptor) => {
        const handler = descriptor.value as object
        setMetadata(BATCHED, { ...work, parse }, handler)
        decorate(handler, options)
      }
    },
  },
)

/**
 * Methods of routes with `recover`, by the route's name. If a class is declared again, its method replaces the old one.
 */
const recoverable = new Map<string, object>()

/** What decorated methods promise about keys. A method is bound at its first request, but the policy is read earlier. */
const declaredTerms = new Set<RetentionOptions>()

function decorate(handler: object, options: RouteOptions<NestRequest, Duration | undefined> | undefined): void {
  // Refused here, because the options are bound to a service only at the first request.
  if ((options as { streams?: unknown } | undefined)?.streams === 'record') throw cannotRecord(NAME)
  declareInterceptor()
  if (options?.replayFor ?? options?.goneFor ?? options?.expired) declaredTerms.add(options as RetentionOptions)
  if (options?.recover && options.name !== undefined) recoverable.set(options.name, handler)
  setMetadata(ROUTE, options, handler)
  useInterceptor(IdempotencyInterceptor, handler)
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

export class OnceModule {
  readonly #workshop: Workshop
  #adapter: ReturnType<NonNullable<WithAdapter['getHttpAdapter']>> | undefined

  constructor(workshop: Workshop) {
    this.#workshop = workshop
  }

  /** Nest calls this method when an application with an HTTP server starts. */
  configure(middleware: WithAdapter): void {
    this.#adapter = middleware.getHttpAdapter?.()
  }

  /**
   * Nest would wait for every open connection of its server, without a time limit. So the instance closes the server
   * first, as it does for other frameworks.
   */
  beforeApplicationShutdown(): Promise<void> {
    return this.#workshop.close(this.#adapter?.getHttpServer())
  }

  static forRoot<Tx, E extends Events, Req = NestRequest>(
    options: NestOptions<Req> & { once: Once<Tx, E> },
  ): DynamicModule {
    return moduleOf({ useValue: workshopOf(options) })
  }

  /**
   * As `forRoot`, with options that other providers make.
   *
   * @example
   * OnceModule.forRootAsync({
   *   inject: [PrismaService],
   *   useFactory: (prisma: PrismaService) => ({ once: makeOnce(prisma), scope: (req: Authenticated) => req.user.id }),
   * })
   */
  static forRootAsync<Tx, E extends Events, Req = NestRequest>({
    imports = [],
    inject = [],
    useFactory,
  }: NestAsyncOptions<Tx, E, Req>): DynamicModule {
    const make = async (...providers: unknown[]): Promise<Workshop> => workshopOf(await useFactory(...providers))
    return moduleOf({ useFactory: make, inject: inject as never }, imports)
  }

  /** The policy document and the OpenAPI fragment of these options. */
  static documents<Tx, E extends Events, Req = NestRequest>({
    once,
    closeWithin: _,
    ...options
  }: NestOptions<Req> & { once: Once<Tx, E> }): Documented {
    return documentsOf(bind(once, options).plain, declaredTerms)
  }
}

function moduleOf(
  made: { useValue: Workshop } | { useFactory: (...providers: unknown[]) => Promise<Workshop>; inject: never },
  imports: DynamicModule['imports'] = [],
): DynamicModule {
  declareInterceptor()
  return {
    module: OnceModule,
    global: true,
    imports,
    providers: [
      { provide: WORKSHOP, ...made },
      { provide: ONCE, useFactory: ({ once }: Workshop) => once, inject: [WORKSHOP] },
      { provide: OnceContext, useFactory: ({ context }: Workshop) => context, inject: [WORKSHOP] },
    ],
    exports: [ONCE, WORKSHOP, OnceContext],
  }
}

function workshopOf<Tx, E extends Events, Req>({
  once,
  closeWithin,
  ...options
}: NestOptions<Req> & { once: Once<Tx, E> }): Workshop {
  const bound = bind(once, options as IdempotencyOptions<NestRequest>, NAME)
  const known = new WeakMap<object, Served>()
  const workshop: Workshop = {
    once,
    context: new OnceContext(),
    // Register before the first request, because a stored operation may be waiting for its route.
    onModuleInit() {
      for (const handler of recoverable.values()) workshop.servedOf(handler)
    },
    async close(server) {
      if (closeWithin === false) return
      await once.close({ within: closeWithin, server })
    },
    servedOf(handler: object): Served {
      let served = known.get(handler)
      if (!served) {
        const work = readMetadata(BATCHED, handler) as Batched | undefined
        const own = readMetadata(ROUTE, handler) as RouteOptions<NestRequest> | undefined
        const protection = bound(own, work && 'batched')
        served = { protection: protection as Served['protection'], batched: work && batchedOf(protection, work) }
        known.set(handler, served)
      }
      return served
    },
  }
  return workshop
}

let declared = false

/** Called late, because Nest loads the metadata library, and Nest may be loaded after this file. */
function declareInterceptor(): void {
  if (declared) return
  declared = true
  for (const type of [IdempotencyInterceptor, OnceModule]) {
    injectable(type, 1)
    inject(WORKSHOP, type, undefined, 0)
  }
}

/** Marks an observable that ended without a value. Nest answers with an error. */
const NOTHING = Symbol('effectively-once nothing')

/** Returns the last value of an observable, as Nest does. Subscribes only once. */
function lastOf(source: Observable<unknown>, began: (subscription: Subscription) => void): Promise<unknown> {
  return new Promise((resolve, reject) => {
    let last: unknown = NOTHING
    began(source.subscribe({ next: (value) => (last = value), error: reject, complete: () => resolve(last) }))
  })
}
