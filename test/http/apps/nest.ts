import 'reflect-metadata'
import type { AddressInfo } from 'node:net'
import { Readable } from 'node:stream'
import {
  Body,
  Controller,
  Delete,
  Get,
  HttpException,
  type INestApplication,
  Module,
  Patch,
  Post,
  Req,
  Res,
  StreamableFile,
} from '@nestjs/common'
import { NestFactory } from '@nestjs/core'
import type { NestExpressApplication } from '@nestjs/platform-express'
import { FastifyAdapter, type NestFastifyApplication } from '@nestjs/platform-fastify'
import type { Request, Response } from 'express'
import { Idempotent, OnceModule, Op } from '../../../src/entry/nest.ts'
import {
  type ContractAnswer,
  type ContractBatched,
  contractBatched,
  ContractError,
  type ContractRoute,
} from '../../../src/testing/http-contract/index.ts'
import type { Started, World } from '../world.ts'
import { piecesOf, textOf, userOf } from './parts.ts'

export async function startNest(world: World): Promise<Started> {
  const app = await NestFactory.create<NestExpressApplication>(appOf(world), {
    logger: false,
    forceCloseConnections: true,
  })
  app.useBodyParser('json', { strict: false })
  return listening(app)
}

export async function startNestOnFastify(world: World): Promise<Started> {
  const adapter = new FastifyAdapter({ forceCloseConnections: true })
  return listening(await NestFactory.create<NestFastifyApplication>(appOf(world), adapter, { logger: false }))
}

async function listening(app: INestApplication): Promise<Started> {
  await app.listen(0, '127.0.0.1')
  const { port } = app.getHttpServer().address() as AddressInfo
  return { base: `http://127.0.0.1:${port}`, close: () => app.close() }
}

/** Decorators as the calls they are: the contract's routes are a list, not a class. */
function appOf({ once, routes }: World): new () => object {
  const options = { once, scope: (req: Request) => userOf(req.headers) }
  const documents = OnceModule.documents(options)
  // oxlint-disable-next-line no-extraneous-class -- its methods are added below
  class Contract {}
  const add = (
    name: string,
    method: (...args: never[]) => unknown,
    decorators: MethodDecorator[],
    params: ParameterDecorator[],
  ): void => {
    Object.defineProperty(method, 'name', { value: name })
    Object.defineProperty(Contract.prototype, name, { value: method, configurable: true })
    params.forEach((decorate, index) => decorate(Contract.prototype, name, index))
    const descriptor = Object.getOwnPropertyDescriptor(Contract.prototype, name) as PropertyDescriptor
    for (const decorate of decorators) decorate(Contract.prototype, name, descriptor)
  }
  routes.forEach((route, index) => {
    const { options: own, lease } = route
    const idempotent = lease === undefined ? Idempotent(own) : Idempotent({ ...own, lease })
    for (const [verb, decorate] of [
      ['post', Post(route.path)],
      ['patch', Patch(route.path)],
      ['delete', Delete(route.path)],
    ] as const) {
      add(`${verb}${index}`, handlerOf(route), [decorate, idempotent], [Req(), Res({ passthrough: true }), Op()])
    }
  })
  const { statement, respond } = contractBatched
  const batched = Idempotent.batched({ statement, respond }) as MethodDecorator
  add('batched', (body: ContractBatched) => body, [Post('/batched'), batched], [Body()])
  add('plain', () => 'plain', [Get('/plain'), Idempotent()], [])
  add('policy', () => documents.policy(), [Get(documents.policyPath)], [])
  Controller()(Contract)
  // oxlint-disable-next-line no-extraneous-class -- a module of Nest is a class
  class App {}
  Module({ imports: [OnceModule.forRoot(options)], controllers: [Contract] })(App)
  return App
}

function handlerOf(route: ContractRoute): (req: Request, res: Response, op: never) => Promise<unknown> {
  // oxlint-disable-next-line no-explicit-any -- of either shape, as the route says
  return async (req, res, op: any) => {
    const seen = { body: textOf(req.body), user: '' }
    try {
      if (route.lease === undefined) return send(res, await route.handle(seen, op))
      await route.before(op, seen)
      return await op.commit(async (inner: never) => send(res, await route.commit(inner, seen)))
    } catch (error) {
      throw error instanceof ContractError ? new HttpException('refused', error.status) : error
    }
  }
}

function send(res: Response, answer: ContractAnswer | null): unknown {
  if (!answer) return undefined
  res.status(answer.status)
  for (const [name, value] of answer.headers ?? []) res.header(name, value)
  if (answer.pieces) return new StreamableFile(Readable.from(piecesOf(answer)))
  const { body } = answer
  return body instanceof Uint8Array ? new StreamableFile(body) : (body ?? undefined)
}
