import type { Duration } from '../../src/index.ts'
import { RESEND_FOR } from './catalogue.ts'
import { Crew, type Post } from './crew.ts'
import { Database } from './database.ts'
import { Hook } from './hook.ts'
import { Operator } from './operator.ts'
import { Watch } from './watch.ts'

/** Registers a function that closes a resource. They run in the opposite order. */
export type AtEnd = (close: () => Promise<unknown>) => void

export interface SceneParams {
  /** How long sent events are kept. The age of a segment is a seventh of this. */
  readonly resendFor?: Duration
  readonly sweepMs?: number
  /** The processes to start, given the address of the webhook receiver. */
  posts(hook: string): Promise<readonly Post[]> | readonly Post[]
  tell(line: string): void
}

/** PostgreSQL with a standby, a webhook receiver, the processes, and the watch over them. */
export interface Scene {
  readonly database: Database
  readonly hook: Hook
  readonly operator: Operator
  readonly crew: Crew
  readonly watch: Watch
}

/** Resolves when every process has started its work. */
export async function openScene({ resendFor, sweepMs, posts, tell }: SceneParams, atEnd: AtEnd): Promise<Scene> {
  let moved = (_port: number): void => {}
  const database = await Database.start((port) => moved(port))
  atEnd(() => database.stop())
  const hook = await Hook.open()
  atEnd(() => hook.close())
  const wanted = await posts(hook.url)
  const operator = await Operator.start(database, { resendFor: resendFor ?? RESEND_FOR, sweepMs, tell })
  atEnd(() => operator.end())
  const crew = new Crew(() => database.primary.url)
  atEnd(() => crew.end())
  await Promise.all(wanted.map((post) => crew.occupy(post)))
  await crew.untilReady()
  const watch = new Watch({ database, crew, hook, tell })
  atEnd(async () => watch.end())
  moved = (port) => {
    crew.moved(port)
    operator.moved(port)
    watch.publishes().catch((error: unknown) => tell(`publishing: ${String(error)}`))
  }
  watch.begin()
  operator.begin()
  tell(`${crew.members.length} processes are at work`)
  return { database, hook, operator, crew, watch }
}

/** `broker` is its name, its address and the place in it. */
export function postsOf(hook: string, broker: readonly string[] = ['none', '', '']): Post[] {
  const producer = (no: number): Post => ({ name: `producer-${no}`, role: 'producer', args: [`producer-${no}`] })
  const relay = (no: number): Post => ({ name: `relay-${no}`, role: 'relay', args: [`${hook}?relay-${no}`, ...broker] })
  const consumer = (no: number, version: string): Post => ({
    name: `consumer-${no}`,
    role: 'consumer',
    args: [version, ...broker],
  })
  return [producer(1), producer(2), relay(1), relay(2), consumer(1, 'v1'), consumer(2, 'v2'), consumer(3, 'v2')]
}

/** Runs the work, and then closes every opened resource. */
export async function closing<T>(tell: (line: string) => void, work: (atEnd: AtEnd) => Promise<T>): Promise<T> {
  const opened: (() => Promise<unknown>)[] = []
  try {
    return await work((close) => void opened.unshift(close))
  } finally {
    for (const close of opened) await close().catch((error: unknown) => tell(`end: ${String(error)}`))
  }
}
