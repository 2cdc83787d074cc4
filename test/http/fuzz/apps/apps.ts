import type { Adapter } from '../case.ts'
import type { App, AppPlan, Bench } from './app.ts'
import { openExpress } from './express.ts'
import { openFastify } from './fastify.ts'
import { openKoa } from './koa.ts'
import { openNest } from './nest.ts'
import { openNode } from './node.ts'
import { openFetch, openHono } from './web.ts'

const OPEN: Readonly<Record<Adapter, (plan: AppPlan, bench: Bench) => Promise<App>>> = {
  node: openNode,
  'express 4': openExpress,
  'express 5': openExpress,
  fastify: openFastify,
  koa: openKoa,
  'nest on express': openNest,
  'nest on fastify': openNest,
  hono: openHono,
  fetch: openFetch,
}

export function openApp(plan: AppPlan, bench: Bench): Promise<App> {
  return OPEN[plan.adapter](plan, bench)
}
