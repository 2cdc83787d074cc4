import { pipeline, Readable } from 'node:stream'
import { pipeline as pipelined } from 'node:stream/promises'
import { setImmediate as turn } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { HttpException, StreamableFile } from '@nestjs/common'
import { HTTPException } from 'hono/http-exception'
import type { MemoryTx } from '../../../src/entry/testing.ts'
import type { Desk } from './desk.ts'
import { TOO_LATE_MS } from './kinds.ts'

/** What a handler is handed: the operation, or nothing of the kind. */
export interface Op {
  readonly tx: MemoryTx
}

/** The names that the text of a handler uses. */
export interface World {
  effect(op: Op | null): Promise<void>
  turns(count: number): Promise<void>
  slow(): Promise<void>
  stuck(): Promise<void>
  later(ms: number, work: () => void): void
  guarded(work: () => void): () => void
  fault(status: number): Error
  bytes(size: number): Buffer
  stream(size: number): Readable
  failing(size: number, at: number): Readable
  webStream(size: number, at: number | null): ReadableStream<Uint8Array>
  readonly pipeline: typeof pipeline
  readonly pipelined: typeof pipelined
  readonly HttpException: typeof HttpException
  readonly StreamableFile: typeof StreamableFile
  readonly HTTPException: typeof HTTPException
  readonly FILE: string
}

const FILE = fileURLToPath(new URL('./case.' + (import.meta.url.endsWith('.js') ? 'js' : 'ts'), import.meta.url))

/** `abandon`: ends the connection of a request whose callback threw, as the end of the process would. null: nobody does. */
export function worldOf(desk: Desk, nonce: string, abandon: (() => void) | null): World {
  const note = desk.note(nonce)
  const guarded =
    (work: () => void): (() => void) =>
    () => {
      if (!abandon) return work()
      try {
        work()
      } catch {
        note.died = true
        abandon()
      }
    }
  return {
    effect: async (op) => {
      note.effects++
      if (op) await op.tx.insert('effect', { uid: `${nonce}/${note.effects}`, nonce })
      else await turn()
    },
    turns: async (count) => {
      for (let i = 0; i < count; i++) await turn()
    },
    slow: async () => {
      await turn()
      desk.slow(nonce)
      for (let i = 0; i < 5; i++) await turn()
    },
    stuck: () =>
      new Promise((resolve) => {
        note.pending++
        setTimeout(() => {
          note.pending--
          resolve()
        }, TOO_LATE_MS)
      }),
    later: (ms, work) => {
      note.pending++
      setTimeout(() => {
        note.pending--
        guarded(work)()
      }, ms)
    },
    guarded,
    fault: (status) => Object.assign(new Error('refused'), { status, statusCode: status, expose: true }),
    bytes,
    stream: (size) => Readable.from(piecesOf(size, null), { objectMode: false }),
    failing: (size, at) => Readable.from(piecesOf(size, at), { objectMode: false }),
    webStream: (size, at) => webStreamOf(size, at),
    pipeline,
    pipelined,
    HttpException,
    StreamableFile,
    HTTPException,
    FILE,
  }
}

const PIECE = 16 * 1024

function bytes(size: number): Buffer {
  const made = Buffer.alloc(size)
  for (let i = 0; i < size; i++) made[i] = (i * 7 + 3) % 256
  return made
}

/** Fails when `at` bytes are out. */
async function* piecesOf(size: number, at: number | null): AsyncGenerator<Buffer> {
  const until = at ?? size
  for (let done = 0; done < until; done += PIECE) {
    yield Buffer.alloc(Math.min(PIECE, until - done), 's')
    await turn()
  }
  if (at === null) return
  // The first bytes are on their way.
  for (let i = 0; i < 3; i++) await turn()
  throw new TypeError('the stream broke')
}

function webStreamOf(size: number, at: number | null): ReadableStream<Uint8Array> {
  const pieces = piecesOf(size, at)
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      const { done, value } = await pieces.next()
      if (done) controller.close()
      else controller.enqueue(new Uint8Array(value))
    },
  })
}

// oxlint-disable-next-line no-explicit-any -- as many forms as frameworks
export type Handler = (...args: any[]) => unknown

const made = new Map<string, (...values: unknown[]) => Handler>()
const MADE_MAX = 5_000

/** The function that a text is, in the world of one request. */
export function handlerOf(source: string, world: World): Handler {
  let make = made.get(source)
  if (!make) {
    // oxlint-disable-next-line no-implied-eval -- the generator wrote it
    make = new Function(...Object.keys(world), `return (${source})`) as (...values: unknown[]) => Handler
    if (made.size >= MADE_MAX) made.clear()
    made.set(source, make)
  }
  return make(...Object.values(world))
}
