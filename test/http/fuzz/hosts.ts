import { fork, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { programBeside } from '../../../scripts/program.ts'
import type { AppPlan } from './apps/app.ts'
import type { Note } from './desk.ts'

/** What a child is asked for: an app, or what it knows of a request. */
export type Order = { readonly id: number; readonly open: AppPlan } | { readonly id: number; readonly nonce: string }

export interface Seen extends Note {
  /** Effects that are committed. */
  readonly rows: number
}

export interface Reply {
  readonly id: number
  readonly port?: number
  readonly seen?: Seen
  readonly failed?: string
}

export class HostDied extends Error {}

/** Who serves apps. */
export interface Host {
  /** How often it died of itself, and its last words. */
  readonly deaths: number
  readonly lastWords: string
  port(plan: AppPlan): Promise<number>
  seen(nonce: string): Promise<Seen>
  close(): Promise<void>
}

interface Waiting {
  resolve(reply: Reply): void
  reject(error: Error): void
}

const REPLY_MS = 30_000

/** A process that serves apps. When it dies the next one takes its place, and that is counted. */
class HostProcess implements Host {
  readonly #apps: 'plain' | 'protected'
  #child: Promise<ChildProcess> | null = null
  #ports = new Map<string, Promise<number>>()
  readonly #waiting = new Map<number, Waiting>()
  #ids = 0
  #words = ''
  deaths = 0
  lastWords = ''

  constructor(apps: 'plain' | 'protected') {
    this.#apps = apps
  }

  port(plan: AppPlan): Promise<number> {
    const { adapter, protocol, stack } = plan
    const name = JSON.stringify([adapter, protocol, stack])
    let port = this.#ports.get(name)
    if (!port) {
      port = this.#order((id) => ({ id, open: { adapter, protocol, stack } })).then((reply) => reply.port as number)
      port.catch(() => this.#ports.delete(name))
      this.#ports.set(name, port)
    }
    return port
  }

  async seen(nonce: string): Promise<Seen> {
    return (await this.#order((id) => ({ id, nonce }))).seen as Seen
  }

  async close(): Promise<void> {
    const child = await this.#child?.catch(() => null)
    this.#forget()
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    child.removeAllListeners('exit')
    const gone = once(child, 'exit')
    child.kill('SIGKILL')
    await gone
  }

  async #order(make: (id: number) => Order): Promise<Reply> {
    const child = await (this.#child ??= this.#start())
    const id = this.#ids++
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => reject(new HostDied('a host does not answer')), REPLY_MS)
      this.#waiting.set(id, {
        resolve: (reply) => {
          clearTimeout(timer)
          if (reply.failed === undefined) resolve(reply)
          else reject(new Error(reply.failed))
        },
        reject: (error) => {
          clearTimeout(timer)
          reject(error)
        },
      })
      child.send(make(id), (error) => error && reject(new HostDied(error.message)))
    })
  }

  async #start(): Promise<ChildProcess> {
    const { file, execArgv } = programBeside(import.meta.url, 'child')
    const child = fork(file, [], {
      execArgv: [...execArgv, '--max-http-header-size=65536'],
      env: { ...process.env, NODE_ENV: 'production', FUZZ_APPS: this.#apps },
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.#words = ''
    child.stderr?.on('data', (chunk: Buffer) => (this.#words = (this.#words + chunk.toString()).slice(-4_000)))
    await Promise.race([
      once(child, 'message'),
      once(child, 'exit').then(() => Promise.reject(new Error(`a host did not start: ${this.#words}`))),
    ])
    child.on('message', (reply: Reply) => {
      this.#waiting.get(reply.id)?.resolve(reply)
      this.#waiting.delete(reply.id)
    })
    child.on('exit', () => {
      this.deaths++
      this.lastWords = this.#words
      this.#forget()
    })
    return child
  }

  #forget(): void {
    this.#child = null
    this.#ports = new Map()
    for (const { reject } of this.#waiting.values()) reject(new HostDied('the host died'))
    this.#waiting.clear()
  }
}

/** Both kinds. */
export interface Hosts {
  readonly plain: Host
  readonly guarded: Host
}

export function openHosts(): Hosts {
  return { plain: new HostProcess('plain'), guarded: new HostProcess('protected') }
}

export async function closeHosts({ plain, guarded }: Hosts): Promise<void> {
  await Promise.all([plain.close(), guarded.close()])
}
