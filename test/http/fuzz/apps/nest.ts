import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import {
  type ArgumentsHost,
  type CallHandler,
  Controller,
  type ExceptionFilter,
  type ExecutionContext,
  Head,
  HttpException,
  Module,
  type NestInterceptor,
  Post,
  Req,
  RequestTimeoutException,
  Res,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import { ExpressAdapter } from '@nestjs/platform-express'
import { FastifyAdapter } from '@nestjs/platform-fastify'
import type { FastifyInstance } from 'fastify'
import { finalize, map, Observable, race } from 'rxjs'
import { Idempotent, OnceModule, Op } from '../../../../src/entry/nest.ts'
import type { Layer } from '../case.ts'
import type { Desk } from '../desk.ts'
import { type App, type AppPlan, type Bench, broughtByNode, nonceOf, OPTIONS, ROUTE_NAMES, ROUTES } from './app.ts'
import { connectLayers } from './connect.ts'
import { addLayer } from './fastify.ts'

/** As interceptors and filters; the others stand below Nest. */
const ABOVE: readonly Layer[] = ['timeout', 'errors', 'after', 'envelope']

export async function openNest({ adapter, stack }: AppPlan, bench: Bench): Promise<App> {
  const onExpress = adapter === 'nest on express'
  const platform = onExpress ? new ExpressAdapter() : new FastifyAdapter({ keepAliveTimeout: 60_000 })
  const app = await NestFactory.create(moduleOf(bench), platform as never, { logger: false })
  const below = stack.filter((layer) => !ABOVE.includes(layer))
  if (onExpress) for (const middleware of connectLayers(below, bench.desk)) app.use(middleware)
  else for (const layer of below) addLayer(app.getHttpAdapter().getInstance() as FastifyInstance, layer, bench.desk)
  app.useGlobalInterceptors(...stack.flatMap((layer) => interceptorOf(layer, bench.desk) ?? []))
  if (stack.includes('errors')) app.useGlobalFilters(FILTER)
  await app.listen(0, '127.0.0.1')
  const server = app.getHttpServer() as { address(): AddressInfo; keepAliveTimeout: number }
  server.keepAliveTimeout = 60_000
  return { port: server.address().port }
}

interface Raw {
  readonly raw?: never
}

/** Decorators as the calls they are. `returned/…` are the routes whose answer Nest sends. */
function moduleOf(bench: Bench): new () => object {
  // oxlint-disable-next-line no-extraneous-class -- its methods are added below
  class Cases {}
  for (const name of ROUTE_NAMES) {
    for (const returned of [true, false]) {
      for (const [verb, decorate] of [
        ['post', Post],
        ['head', Head],
      ] as const) {
        const method = `${verb}${returned ? 'Returned' : ''}${name}`
        const handle = (req: Raw, res: unknown, op: unknown): unknown =>
          broughtByNode(bench, (req.raw ?? req) as never)(req, res, bench.once ? op : null)
        Object.defineProperty(handle, 'name', { value: method })
        Object.defineProperty(Cases.prototype, method, { value: handle, configurable: true })
        const descriptor = Object.getOwnPropertyDescriptor(Cases.prototype, method) as PropertyDescriptor
        const params = [Req(), returned ? Res({ passthrough: true }) : Res(), ...(bench.once ? [Op()] : [])]
        params.forEach((param, index) => param(Cases.prototype, method, index))
        decorate(returned ? `returned/${name}` : name)(Cases.prototype, method, descriptor)
        if (bench.once) Idempotent(ROUTES[name])(Cases.prototype, method, descriptor)
      }
    }
  }
  Controller()(Cases)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  const imports = bench.once ? [OnceModule.forRoot({ once: bench.once, ...OPTIONS })] : []
  Module({ imports, controllers: [Cases] })(App)
  return App
}

function interceptorOf(layer: Layer, desk: Desk): NestInterceptor | undefined {
  const nonceIn = (context: ExecutionContext): string =>
    nonceOf(context.switchToHttp().getRequest<{ headers: Record<string, string> }>().headers)
  switch (layer) {
    case 'envelope':
      return {
        intercept: (_context: ExecutionContext, next: CallHandler) =>
          next.handle().pipe(map((data: unknown) => (isPlain(data) ? { data } : data))),
      }
    case 'after':
      return {
        intercept: (context: ExecutionContext, next: CallHandler) => {
          const note = desk.note(nonceIn(context))
          note.begun++
          return next.handle().pipe(finalize(() => void note.ended++))
        },
      }
    case 'timeout':
      return {
        intercept: (context: ExecutionContext, next: CallHandler) =>
          race(
            next.handle(),
            new Observable<never>((subscriber) =>
              desk.impatient(nonceIn(context), () => subscriber.error(new RequestTimeoutException())),
            ),
          ),
      }
    default:
      return undefined
  }
}

/** A file is not data. */
function isPlain(data: unknown): boolean {
  return typeof data === 'object' && data !== null && Object.getPrototypeOf(data) === Object.prototype
}

const FILTER: ExceptionFilter = {
  catch(error: Error, host: ArgumentsHost) {
    const res = host.switchToHttp().getResponse<{
      headersSent?: boolean
      sent?: boolean
      status(code: number): { send(body: unknown): void }
    }>()
    if (res.headersSent === true || res.sent === true) return
    res.status(error instanceof HttpException ? error.getStatus() : 500).send({ handled: error.message })
  },
}
