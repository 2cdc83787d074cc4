import { spawn } from 'node:child_process'
import { cp, mkdtemp, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { type Installed, npmPackages } from '../../scripts/servers/npm.ts'
import { run } from '../../scripts/servers/process.ts'
import type { World } from '../http/world.ts'
import { type Protect, protectOn } from './protect.ts'

const HERE = fileURLToPath(new URL('.', import.meta.url))
const BUILD_MS = 300_000
const START_MS = 60_000

/** A framework that speaks Request and Response, with one route: POST /x/KIND. */
export interface Host {
  send(request: Request): Promise<Response>
  effects(key: string): Promise<number>
  close(): Promise<void>
}

/** Versions that run on the oldest Node we support. */
export const smallHosts = (): Promise<Installed> =>
  npmPackages('hosts', {
    h3: '2.0.8',
    'h3-1': 'npm:h3@1.15.11',
    'react-router': '7.18.5',
    '@sveltejs/kit': '2.70.4',
    '@sveltejs/vite-plugin-svelte': '7',
    svelte: '5',
    vite: '8',
    react: '19',
    'react-dom': '19',
  })
export const nextHost = (): Promise<Installed> =>
  npmPackages('next', { next: '15.5.29', react: '19', 'react-dom': '19' })

type Answers = Readonly<Record<string, () => unknown>>
// oxlint-disable-next-line no-explicit-any -- packages that are installed when they are asked for
type Package = any

async function load(folder: string, name: string): Promise<Package> {
  const path = createRequire(join(folder, 'package.json')).resolve(name)
  return import(pathToFileURL(path).href)
}

const mistake = (): never => {
  throw new Error('a mistake of the handler')
}
const created = (): Response => Response.json({ made: true }, { status: 201 })

/** In this process, on the world's store. */
function within(world: World, serve: (protect: Protect) => (request: Request) => Promise<Response>): Host {
  return { send: serve(protectOn(world.once)), effects: world.effects, close: async () => {} }
}

export async function h3(folder: string, world: World): Promise<Host> {
  const { H3, HTTPError } = await load(folder, 'h3')
  const answers: Answers = {
    created,
    mistake,
    redirect: () => new Response(null, { status: 303, headers: { location: '/elsewhere' } }),
    refuse: () => {
      throw new HTTPError({ status: 402, message: 'declined', data: { code: 'card' }, headers: { 'x-said': 'yes' } })
    },
    fail: () => {
      throw HTTPError.status(503, 'later')
    },
  }
  return within(world, (protect) => {
    const app = new H3({ silent: true })
    app.post('/x/:kind', (event: Package) => protect(answers[event.context.params.kind] ?? mistake)(event.req))
    return async (request) => app.fetch(request)
  })
}

export async function h3Before(folder: string, world: World): Promise<Host> {
  const { createApp, createError, createRouter, eventHandler, toWebHandler, toWebRequest } = await load(folder, 'h3-1')
  const answers: Answers = {
    created,
    mistake,
    redirect: () => new Response(null, { status: 303, headers: { location: '/elsewhere' } }),
    refuse: () => {
      throw createError({ statusCode: 402, statusMessage: 'Declined', message: 'declined', data: { code: 'card' } })
    },
    fail: () => {
      throw createError({ statusCode: 503 })
    },
  }
  return within(world, (protect) => {
    const app = createApp()
    const router = createRouter()
    const route = (event: Package): Promise<Response> =>
      protect(answers[event.context.params.kind] ?? mistake)(toWebRequest(event))
    router.post('/x/:kind', eventHandler(route))
    app.use(router)
    return toWebHandler(app)
  })
}

export async function reactRouter(folder: string, world: World): Promise<Host> {
  const { createRequestHandler, data, redirect } = await load(folder, 'react-router')
  const answers: Answers = {
    created,
    mistake,
    redirect: () => {
      throw redirect('/elsewhere', 303)
    },
    refuse: () => {
      throw data({ code: 'card' }, 402)
    },
    fail: () => {
      throw data({ later: true }, { status: 503 })
    },
  }
  return within(world, (protect) => {
    const action = ({ request, params }: Package): Promise<Response> =>
      protect(answers[params.kind] ?? mistake)(request)
    return createRequestHandler(reactRouterBuild(action), 'production')
  })
}

/** What its compiler makes of one resource route. */
function reactRouterBuild(action: (args: Package) => Promise<Response>): object {
  const route = { id: 'x', path: 'x/:kind' }
  return {
    entry: { module: { default: () => new Response(null), handleError: () => {} } },
    routes: { x: { ...route, module: { action } } },
    assets: {
      entry: { module: '', imports: [] },
      routes: { x: { ...route, hasAction: true, module: '' } },
      url: '',
      version: '1',
    },
    publicPath: '/',
    assetsBuildDirectory: '',
    basename: '/',
    future: {},
    isSpaMode: false,
    ssr: true,
    prerender: [],
    routeDiscovery: { mode: 'initial', manifestPath: '/__manifest' },
  }
}

/** A real build, answered by the Server that its adapters use. */
export async function svelteKit(folder: string, world: World): Promise<Host> {
  const app = await mkdtemp(join(folder, 'app-'))
  await cp(join(HERE, 'kit'), app, { recursive: true })
  const vite = join(folder, 'node_modules/vite/bin/vite.js')
  await run(process.execPath, [vite, 'build'], { timeoutMs: BUILD_MS, cwd: app, env: { NODE_ENV: 'production' } })
  const output = (name: string): Promise<Package> =>
    import(pathToFileURL(join(app, '.svelte-kit/output/server', name)).href)
  const { Server } = await output('index.js')
  const { manifest } = await output('manifest.js')
  const server = new Server(manifest)
  await server.init({ env: {} })
  Object.assign(globalThis, { protect: protectOn(world.once) })
  return {
    send: (request) => server.respond(request, { getClientAddress: () => '127.0.0.1' }),
    effects: world.effects,
    close: () => rm(app, { recursive: true, force: true }),
  }
}

/** A real build, served by Next.js itself in another process. */
export async function nextJs(folder: string): Promise<Host> {
  const app = await mkdtemp(join(folder, 'app-'))
  await cp(join(HERE, 'next'), app, { recursive: true })
  const env = { NODE_ENV: 'production', NEXT_TELEMETRY_DISABLED: '1' }
  const next = join(folder, 'node_modules/next/dist/bin/next')
  await run(process.execPath, [next, 'build'], { timeoutMs: BUILD_MS, cwd: app, env })
  const child = spawn(process.execPath, ['--import', 'tsx', join(HERE, 'next-server.ts'), app, join(app, 'test.db')], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'ignore'],
  })
  const exited = new Promise((resolve) => child.once('close', resolve))
  const close = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
    await rm(app, { recursive: true, force: true })
  }
  const port = await new Promise<number>((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error('Next.js did not start')), START_MS)
    child.once('close', () => reject(new Error('Next.js ended')))
    let output = ''
    child.stdout.on('data', (bytes: Buffer) => {
      output += bytes.toString()
      const said = /listening (\d+)/.exec(output)?.[1]
      if (said === undefined) return
      clearTimeout(timer)
      resolve(Number(said))
    })
  })
  const base = `http://127.0.0.1:${port}`
  return {
    send: async (request) => {
      const { pathname } = new URL(request.url)
      const { method, headers } = request
      return fetch(`${base}${pathname}`, { method, headers, body: await request.text(), redirect: 'manual' })
    },
    effects: async (key) => Number(await (await fetch(`${base}/effects/${key}`)).text()),
    close,
  }
}
