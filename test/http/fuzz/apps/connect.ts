import type { IncomingMessage, ServerResponse } from 'node:http'
import compression from 'compression'
// @ts-expect-error -- has no types here
import cors from 'cors'
// @ts-expect-error -- has no types here
import session from 'express-session'
import helmet from 'helmet'
import type { Layer } from '../case.ts'
import type { Desk } from '../desk.ts'
import { nonceOf } from './app.ts'

export type Middleware = (req: IncomingMessage, res: ServerResponse, next: (error?: unknown) => void) => void

/** What stands before a route of Express, of Nest on Express, or of node:http. Its headers are said again on replays. */
export function connectLayers(stack: readonly Layer[], desk: Desk): Middleware[] {
  return stack.flatMap((layer) => layerOf(layer, desk) ?? [])
}

function layerOf(layer: Layer, desk: Desk): Middleware | undefined {
  switch (layer) {
    case 'helmet':
      return helmet()
    case 'cors':
      return (cors as (options: object) => Middleware)({ origin: 'https://shop.example', credentials: true })
    case 'session':
      return (session as (options: object) => Middleware)({
        secret: 'secret',
        name: 'l-sid',
        resave: false,
        saveUninitialized: true,
        genid: () => 'fixed',
      })
    case 'compression':
      return compression({ threshold: 100 }) as unknown as Middleware
    case 'timeout':
      return (req, res, next) => {
        desk.impatient(nonceOf(req.headers), () => {
          if (res.headersSent) return
          res.statusCode = 503
          res.setHeader('content-type', 'application/json')
          res.setHeader('content-length', 13)
          res.end('{"late":true}')
        })
        next()
      }
    case 'after':
      return (req, res, next) => {
        const note = desk.note(nonceOf(req.headers))
        note.begun++
        res.once('close', () => note.ended++)
        const writeHead = res.writeHead.bind(res) as (...args: unknown[]) => ServerResponse
        // As on-headers does, for those who count the time.
        res.writeHead = (...args: unknown[]) => {
          if (!res.headersSent) res.setHeader('x-l-after', 'yes')
          return writeHead(...args)
        }
        next()
      }
    default:
      return undefined
  }
}
