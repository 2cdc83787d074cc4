import { execFile, spawn } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { build } from 'vite'
import { freePort, run } from '../../scripts/servers/process.ts'
import type { RuntimeName } from '../../scripts/servers/runtimes.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const tsc = join(dirname(createRequire(import.meta.url).resolve('typescript/package.json')), 'bin', 'tsc')
const BUILD_MS = 180_000
const START_MS = 30_000

export interface RunningRuntime {
  readonly base: string
  stop(): Promise<void>
}

/** A user's project: the package as it is built, beside Hono and postgres.js. */
export async function makeProject(): Promise<string> {
  await mkdir(join(ROOT, '.tmp'), { recursive: true })
  const folder = await mkdtemp(join(ROOT, '.tmp', 'runtimes-'))
  const own = join(folder, 'node_modules', 'effectively-once')
  await run(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--outDir', join(own, 'dist')], {
    timeoutMs: BUILD_MS,
    cwd: ROOT,
  })
  await cp(join(ROOT, 'package.json'), join(own, 'package.json'))
  for (const name of ['hono', 'postgres']) {
    await symlink(join(ROOT, 'node_modules', name), join(folder, 'node_modules', name))
  }
  await writeFile(join(folder, 'package.json'), JSON.stringify({ private: true, type: 'module' }))
  for (const name of ['app', 'bun', 'client', 'deno', 'workerd']) {
    await cp(join(ROOT, 'test', 'runtimes', `${name}.mjs`), join(folder, `${name}.mjs`))
  }
  return folder
}

export function removeProject(folder: string): Promise<void> {
  return rm(folder, { recursive: true, force: true })
}

export function startRuntime(
  name: RuntimeName,
  order: { readonly executable: string; readonly folder: string; readonly url: string },
): Promise<RunningRuntime> {
  return STARTS[name](order)
}

/** Runs the client of this package in a process of its own, and returns what it printed. */
export async function runClient(
  name: 'bun' | 'deno',
  { executable, folder }: { readonly executable: string; readonly folder: string },
  args: readonly string[],
): Promise<unknown> {
  const runs = name === 'bun' ? ['run'] : [...DENO_RUNS, '--allow-write']
  const env = { ...process.env, DENO_DIR: join(folder, '.deno'), NO_COLOR: '1' }
  const options = { cwd: folder, env, timeout: START_MS }
  const { stdout } = await promisify(execFile)(executable, [...runs, 'client.mjs', ...args], options)
  return JSON.parse(stdout)
}

type Start = typeof startRuntime extends (name: RuntimeName, order: infer O) => infer R ? (order: O) => R : never

const DENO_RUNS = ['run', '--cached-only', '--allow-net=127.0.0.1', '--allow-env', '--allow-read', '--allow-sys']

const STARTS: Readonly<Record<RuntimeName, Start>> = {
  bun: ({ executable, folder, url }) => listening(executable, ['run', 'bun.mjs'], folder, url),
  deno: ({ executable, folder, url }) => listening(executable, [...DENO_RUNS, 'deno.mjs'], folder, url),
  workerd: async ({ executable, folder, url }) => {
    await bundle(folder)
    const port = await freePort()
    await writeFile(join(folder, 'config.capnp'), configOf(port, url))
    return listening(executable, ['serve', 'config.capnp', '--verbose'], folder, url, port)
  },
}

/** One module, as Cloudflare's own tools make it. */
async function bundle(folder: string): Promise<void> {
  await build({
    root: folder,
    configFile: false,
    logLevel: 'error',
    resolve: { conditions: ['workerd', 'worker', 'browser'] },
    build: {
      outDir: join(folder, 'bundle'),
      target: 'es2022',
      minify: false,
      lib: { entry: join(folder, 'workerd.mjs'), formats: ['es'], fileName: () => 'worker.js' },
      rollupOptions: { external: /^(node|cloudflare):/ },
    },
  })
}

function configOf(port: number, url: string): string {
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [
    (name = "main", worker = .worker),
    (name = "internet", network = (allow = ["public", "private"])),
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")],
);
const worker :Workerd.Worker = (
  modules = [(name = "worker", esModule = embed "bundle/worker.js")],
  compatibilityDate = "2026-06-01",
  compatibilityFlags = ["nodejs_compat"],
  bindings = [(name = "DATABASE_URL", text = ${JSON.stringify(url)})],
);
`
}

/** Ready when it says its port, or when it answers on the one it was given. */
async function listening(
  executable: string,
  args: readonly string[],
  folder: string,
  url: string,
  given?: number,
): Promise<RunningRuntime> {
  const child = spawn(executable, [...args], {
    cwd: folder,
    env: { ...process.env, DATABASE_URL: url, DENO_DIR: join(folder, '.deno'), NO_COLOR: '1' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const exited = new Promise<void>((resolve) => child.once('close', () => resolve()))
  const stop = async (): Promise<void> => {
    child.kill('SIGKILL')
    await exited
  }
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (bytes: Buffer) => (output += bytes.toString()))
  const until = performance.now() + START_MS
  while (performance.now() < until && child.exitCode === null) {
    const port = given ?? Number(/listening (\d+)/.exec(output)?.[1] ?? 0)
    const base = `http://127.0.0.1:${port}`
    const answers = port > 0 && (await fetch(`${base}/ready`).then(() => true, () => false)) // prettier-ignore
    if (answers) return { base, stop }
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  await stop()
  throw new Error(`${executable} did not start: ${output.slice(-2_000)}`)
}
