import { invalid } from '../options.ts'
import { timeOfDay, webClock, webRandom } from '../platform/web.ts'
import { marked } from './attempt.ts'
import { notSent } from './call-error.ts'
import { guardedBy } from './guarded.ts'
import { RESUMED_AT_ONCE } from './limits.ts'
import { hashOf, plainRequest } from './request.ts'
import { type Ending, retriesOf, type Run, type Seams } from './retries.ts'
import { alone, idOf, type RunningCalls } from './running.ts'
import { settingsOf, time } from './settings.ts'
import { type Kept, keep, listed, read, type StoredCall, toBase64 } from './stored-call.ts'
import type { CallResponse, ClientOptions, IdempotentClient, ResumedCall } from './types.ts'

const SYSTEM: Seams = { clock: webClock, random: webRandom, timeOfDay }
const KEY = /^[!-~]([ -~]{0,253}[!-~])?$/

/** A client that keeps the key of each call until its outcome is known. */
export function idempotentClient(options: ClientOptions = {}): IdempotentClient {
  return clientWith(options, SYSTEM)
}

/** With the clock and the random numbers of a test. */
export function clientWith(options: ClientOptions, seams: Seams): IdempotentClient {
  const settings = settingsOf(options)
  const { header, secrets, storage } = settings
  const { clock, random } = seams
  const send = retriesOf(settings, seams)
  const stored = guardedBy(clock, settings.timeoutMs)
  const running: RunningCalls = new Map()

  const isForgotten = ({ until }: StoredCall): boolean => (until ?? Infinity) <= seams.timeOfDay()
  const swap = (name: string, from: string, to: string | null, undo?: () => Promise<boolean>): Promise<boolean> =>
    stored(() => storage.swap(name, from, to), undo)

  /** Without a name: all calls. */
  async function list(name?: string): Promise<Kept[]> {
    const all: Kept[] = []
    for (const text of await stored(() => storage.list())) {
      try {
        const kept = read(text)
        const own = kept.call.name
        if (isForgotten(kept.call)) await swap(own, text, null)
        else if ((name ?? own) === own) all.push(kept)
      } catch (error) {
        // One call must not hide the others.
        void settings.onError(error)
      }
    }
    return all
  }

  const find = async (name: string): Promise<Kept | undefined> => (await list(name))[0]
  /** Pending and stopped calls. */
  const open = async (name?: string): Promise<Kept[]> =>
    (await list(name)).filter(({ call }) => call.until === undefined)

  /** Stores the call before anything is sent, or finds the call that has its name. */
  async function begin(call: StoredCall): Promise<[kept: Kept, inDoubt: boolean]> {
    const { name, hash } = call
    for (;;) {
      const mine = keep(call)
      const text = await stored(
        () => storage.add(name, mine.text),
        () => storage.swap(name, mine.text, null),
      )
      if (text === mine.text) return [mine, false]
      const found = read(text)
      const { state, key, since } = found.call
      const isEqual = found.call.hash === hash
      let next = mine
      if (!isForgotten(found.call) && (isEqual || state !== 'refused')) {
        if (!isEqual) throw notSent('ONCE_MISMATCH', 422, 'the name has another request', found)
        if (state === 'stopped') throw stopped(found.call)
        if (state === 'done') return [found, true]
        // A refused answer was not stored, so the same key may run. A late first attempt meets its own key. The text of
        // a pending call changes, so that its other sender cannot forget it.
        next = keep(state === 'refused' ? { ...call, key, since } : { ...found.call, nonce: call.nonce })
      }
      const isMine = await swap(name, text, next.text, () => storage.swap(name, next.text, text))
      if (isMine) return [next, next !== mine]
    }
  }

  /** Sends the call, and records how it ended. */
  async function end({ call, text }: Kept, sent: StoredCall, run: Run, inDoubt: boolean): Promise<CallResponse> {
    const ending = await send(sent, run, inDoubt)
    const { state, response, error } = ending
    if (state !== 'pending' && call.state !== 'done') {
      const { name, key } = call
      const next = recordOf(call, ending, seams.timeOfDay() + settings.rememberMs)
      const write = (from: string): Promise<boolean> => swap(name, from, next && keep(next).text)
      try {
        // Another sender may have found the call meanwhile. It must not be forgotten then, but a success is known.
        if (!(await write(text)) && state === 'done') {
          const now = await find(name)
          if (now?.call.key === key) await write(now.text)
        }
      } catch (error) {
        // The answer is known, so a failing storage must not hide it. A resume asks for the answer again.
        void settings.onError((error as Error).cause)
      }
    }
    if (response) return response
    throw error
  }

  return {
    async fetch(input, init = {}, given = {}) {
      const signal = given.signal ?? init.signal ?? (input as Partial<Request>).signal ?? null
      const withinMs = time(given, 'deadline', settings.deadlineMs)
      const endsAt = clock.now() + withinMs
      const request = await plainRequest(input, init, clock, withinMs, signal)
      signal?.throwIfAborted()
      const { method, url, headers, body, init: kept } = request
      if (/^(GET|HEAD|OPTIONS)$/.test(method)) {
        const answer = await settings.fetch(url, { ...init, ...kept, method, headers, signal })
        return marked(answer, answer, '')
      }
      const key = given.key ?? headers.get(header) ?? settings.key?.() ?? random.uuid()
      const { name = key } = given
      if (!KEY.test(key) || !name) throw invalid('key must be 1 to 255 ASCII characters, and name 1 or more')
      const call: StoredCall = {
        name,
        key,
        hash: await hashOf(request),
        method,
        url,
        headers: [...headers].filter(([own]) => !secrets.has(own)),
        body: toBase64(body) || null,
        init: kept,
        since: seams.timeOfDay(),
        nonce: random.uuid(),
        state: 'pending',
      }
      // A stored form has its own boundary.
      headers.delete('content-type')
      const run: Run = { call, endsAt, signal, headers, extra: { ...init } }
      return alone(running, clock, run, async () => {
        const [found, inDoubt] = await begin(call)
        run.call = found.call
        // The headers and the body of a done call are no longer stored.
        const sent = found.call.body ? found.call : { ...found.call, headers: call.headers, body: call.body }
        return end(found, sent, run, inDoubt)
      })
    },
    async pending() {
      const calls = (await open()).map(({ call }) => listed(call, running.has(idOf(call))))
      return calls.sort((a, b) => a.since - b.since)
    },
    async resume({ name, signal } = {}) {
      return resumeAll(await open(name), ({ call, text }) => {
        const run = { call, endsAt: clock.now() + settings.deadlineMs, signal, headers: [] }
        return alone(running, clock, run, async () => {
          const mine = keep({ ...call, nonce: random.uuid() })
          // Otherwise the call has ended meanwhile.
          return (await swap(call.name, text, mine.text)) ? end(mine, call, run, true) : undefined
        })
      })
    },
    state: async (name) => (await find(name))?.call.state ?? 'none',
    async forget(name) {
      // A mark that counts as forgotten. So the text of a call that cannot be read is found, too.
      const mark = keep({ name, key: '-', until: 0 } as StoredCall)
      const text = await stored(() => storage.add(name, mark.text))
      return (await swap(name, text, null)) && text !== mark.text
    },
  }
}

/** Resumes a few calls at a time. A stopped call is listed with the error that stopped it. */
async function resumeAll(
  waiting: Kept[],
  resume: (kept: Kept) => Promise<CallResponse | undefined>,
): Promise<ResumedCall[]> {
  const resumed: ResumedCall[] = []
  const queue = waiting.values()
  const work = async (): Promise<void> => {
    for (const kept of queue) {
      const { name, key, state } = kept.call
      try {
        if (state === 'stopped') throw stopped(kept.call)
        const response = await resume(kept)
        if (response) resumed.push({ name, key, response })
      } catch (error) {
        resumed.push({ name, key, error })
      }
    }
  }
  await Promise.all(Array.from({ length: RESUMED_AT_ONCE }, work))
  return resumed
}

/** What the storage keeps of a call that ended. Null: nothing. */
function recordOf(call: StoredCall, { state, error }: Ending, until: number): StoredCall | null {
  if (state === 'stopped') return { ...call, state, code: error?.code ?? '' }
  if (state === 'none' || call.name === call.key) return null
  return { ...call, headers: [], body: null, state, until }
}

function stopped(call: StoredCall): Error {
  return notSent(call.code ?? '', 409, 'it was stopped', { call })
}
