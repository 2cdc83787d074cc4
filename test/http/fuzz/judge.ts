import { brotliDecompressSync, gunzipSync, inflateSync } from 'node:zlib'
import { CANARY } from './canary.ts'
import type { Layer } from './case.ts'
import type { Played, Trial } from './trial.ts'
import type { Heard, Message } from './wire/message.ts'

/** One promise that a case breaks. */
export interface Difference {
  readonly rule: string
  readonly text: string
}

/** Of one connection or one moment, and how an answer is cut into pieces. */
const ASIDE = new Set(['date', 'connection', 'keep-alive', 'transfer-encoding', 'content-length', 'trailer'])
const OURS = 'idempotent-replayed'
/** Said by us alone: the key, and which request was run. */
const ECHOED = new Set([OURS, 'idempotency-key', 'original-request-id'])
const THROWN_AFTER = 'thrown after an answer'
/** Statuses after which the key is free. */
const NOT_STORED = new Set([401, 403, 408, 409, 423, 425, 429])

/** Compares what the protected app did with what the plain one did, by the rules of docs/http.md alone. */
export function judge(trial: Trial, plain: Played, guarded: Played): Difference[] {
  const found: Difference[] = []
  const say = (rule: string, text: string): void => void found.push({ rule, text })
  const [expected] = plain.first.messages
  const [got] = guarded.first.messages
  const broken = trial.hints.throwsAfterAnswer
    ? THROWN_AFTER
    : (brokenBy(plain.first) ?? refusedBy(trial, expected ?? null))
  const round = { trial, expected: expected ?? null, broken, plain }
  judgeRound('first', round, guarded.first, say)
  if (guarded.second) {
    if (got && isStored(trial, got)) judgeReplay(trial, got, guarded.second, say)
    else judgeRound('again', round, guarded.second, say)
  }
  judgeEffect(trial, guarded, say)
  if (plain.seen.begun === plain.seen.ended && guarded.seen.begun !== guarded.seen.ended)
    say('around', `${guarded.seen.begun} began around the route, ${guarded.seen.ended} ended`)
  return found
}

type Say = (rule: string, text: string) => void

interface Round {
  readonly trial: Trial
  readonly expected: Message | null
  /** Why the plain answer does not count. */
  readonly broken: string | null
  readonly plain: Played
}

/** Why nobody could use the plain answer. */
function brokenBy({ messages, malformed, ended }: Heard): string | null {
  const [message] = messages
  if (malformed !== null) return `malformed: ${malformed}`
  if (!message) return ended === 'impatient' ? 'no answer' : 'closed before an answer was whole'
  if (message.untilClose) return 'cut off'
  if (!decoded(message)) return 'a body that its coding does not fit'
  return null
}

/**
 * What cannot be held until the commit, whatever a plain app does with it: informational answers; an answer past the
 * deadline; a stream that broke, also where the host sends what there was of it; and the answer of a handler that
 * throws after it, because then nothing is committed.
 */
function refusedBy(trial: Trial, expected: Message | null): string | null {
  if (expected && expected.informational.length > 0) return 'informational'
  if (expected && expected.status === trial.hints.breaks) return 'a stream that broke'
  if (trial.hints.brief && !isPassing(trial)) return expected ? null : 'too late'
  return null
}

/** Over HTTP/2 a plain app that ends over its second answer may look as if its first one were whole. */
function isCutOff({ protocol, hints }: Trial, { body, status }: Message, got: Message): boolean {
  if (protocol !== 'http/2' || hints.firstOfTwo !== status || got.status !== status) return false
  return body.byteLength < got.body.byteLength && got.body.subarray(0, body.byteLength).equals(body)
}

/** Layers with hooks of their own beside those of a session. */
const BESIDE: ReadonlySet<Layer> = new Set(['envelope', 'onSend', 'compression'] as const)

/**
 * Fastify calls the onSend hooks of a plain app once more, for nothing, where an async handler sent its reply and is done
 * while a hook before them is still busy. Behind ours the answer may have left by then, and has the hook's cookie once.
 */
function asCalledOnce(trial: Trial, expected: Message, got: Message): Message {
  const { adapter, voice, stack, hints } = trial
  if (adapter !== 'fastify' || voice !== 'reply' || isPassing(trial)) return expected
  if (!stack.includes('session') || !stack.some((layer) => BESIDE.has(layer))) return expected
  const isHooks = ([name, value]: readonly [string, string]): boolean => name === 'set-cookie' && value === 's-c=3'
  const calls = hints.firstOfTwo === undefined ? 1 : 2
  if (expected.headers.filter(isHooks).length !== calls + 1 || got.headers.filter(isHooks).length !== calls)
    return expected
  const second = expected.headers.findLastIndex(isHooks)
  return { ...expected, headers: expected.headers.filter((_header, index) => index !== second) }
}

function isPassing({ method, protects }: Trial): boolean {
  return method === 'HEAD' && !protects
}

function judgeRound(name: string, { trial, expected, broken, plain }: Round, heard: Heard, say: Say): void {
  const [got, canary] = heard.messages
  if (heard.malformed !== null) return say('malformed', `${name}: ${heard.malformed}`)
  if (heard.ended === 'impatient') return say('hang', `${name}: ${got ? 'the next answer' : 'the answer'} never came`)
  if (got && got.informational.length > 0) say('informational', `${name}: ${got.informational.join(', ')} left`)
  if (broken !== null || !expected) {
    if (got && !decoded(got)) return say('broken', `${name}: a body that its coding does not fit`)
    if (!got || got.status >= 500) {
      if (got) judgeCanary(name, got, canary ?? null, say)
      return
    }
    // The error handler's answer.
    if (broken === THROWN_AFTER && got.status >= 400) return
    // A plain app may cut off its first answer over the second; ours is the first.
    if (got.status === trial.hints.firstOfTwo) return
    return say('broken', `${name}: the plain answer is ${broken}, ours is ${wordsOf(got)}`)
  }
  if (!got) return say('lost', `${name}: no answer instead of ${wordsOf(expected)}`)
  // What is around a plain app may put a wrong length right; ours refuses it. And a short deadline may pass.
  if (got.status >= 500 && (trial.hints.brief || trial.hints.misjudges))
    return judgeCanary(name, got, canary ?? null, say)
  if (isCutOff(trial, expected, got)) return
  for (const text of differencesOf(asCalledOnce(trial, expected, got), got, trial)) say('answer', `${name}: ${text}`)
  // Where the plain app closes the connection, ours may, too.
  if (canary || plain.first.messages[1]) judgeCanary(name, got, canary ?? null, say)
}

function judgeCanary(name: string, got: Message, canary: Message | null, say: Say): void {
  const closes = got.headers.some(([header, value]) => header === 'connection' && value === 'close')
  if (!canary) {
    if (!closes) say('next', `${name}: the connection ended before the next answer`)
    return
  }
  const text = decoded(canary)?.toString('latin1') ?? ''
  if (canary.status !== 200 || !text.includes(CANARY)) say('next', `${name}: the next answer is ${wordsOf(canary)}`)
}

function isStored(trial: Trial, { status }: Message): boolean {
  return !isPassing(trial) && status < 500 && !NOT_STORED.has(status)
}

function judgeReplay(trial: Trial, first: Message, heard: Heard, say: Say): void {
  const [got, canary] = heard.messages
  if (heard.malformed !== null) return say('malformed', `replay: ${heard.malformed}`)
  if (heard.ended === 'impatient') return say('hang', 'the replay, or the next answer, never came')
  if (!got) return say('replay', `no answer instead of ${wordsOf(first)}`)
  if (!got.headers.some(([name, value]) => name === OURS && value === 'true')) {
    return say('replay', `the handler's answer was not replayed: ${wordsOf(got)}`)
  }
  // What stands around the route may say more on a replay: an error of the handler took it away from the first answer.
  const more = got.headers.filter(
    ([name, value]) =>
      isAround(name, value) &&
      !first.headers.some(([said, as]) => said === name && (name !== 'set-cookie' || as === value)),
  )
  const expected = replayable(first)
  const headers = [...expected.headers, ...more]
  // The words beside a status are not stored.
  for (const text of differencesOf({ ...expected, headers, reason: got.reason }, got, trial)) say('replay', text)
  judgeCanary('replay', got, canary ?? null, say)
}

/** Not the handler's: it has names of its own. */
function isAround(name: string, value: string): boolean {
  return name === 'set-cookie' ? value.startsWith('l-') : !name.startsWith('x-h-') && !name.startsWith('x-s-')
}

/** What a replay does not carry: the handler's cookies, and what it said beside the list of docs/http.md. */
function replayable(first: Message): Message {
  const headers = first.headers.filter(([name, value]) => {
    if (name === 'set-cookie') return value.startsWith('l-')
    return !name.startsWith('x-h-') && !name.startsWith('x-s-') && name !== 'accept-ranges'
  })
  return { ...first, headers }
}

function judgeEffect(trial: Trial, { first, second, seen }: Played, say: Say): void {
  const [got] = first.messages
  if (isPassing(trial)) return
  const stored = got !== null && got !== undefined && isStored(trial, got)
  // Where nothing was stored the handler runs again, and a race may end otherwise then.
  const last = stored ? got : second?.messages[0]
  const kept = last ? isStored(trial, last) && last.status < 400 : false
  if (seen.rows !== (kept && seen.effects > 0 ? 1 : 0))
    say('effect', `${seen.rows} effects behind ${last ? wordsOf(last) : 'no answer'}`)
  const replays = second?.messages[0]?.headers.some(([name]) => name === OURS) === true
  if (replays && seen.runs !== 1) say('effect', `the handler ran ${seen.runs} times, and was replayed`)
  if (replays && !stored) say('replay', `replayed, although ${got ? wordsOf(got) : 'nothing'} is not stored`)
}

function differencesOf(expected: Message, got: Message, trial: Trial): string[] {
  const found: string[] = []
  if (expected.status !== got.status || expected.reason !== got.reason)
    found.push(`${wordsOf(got)} instead of ${wordsOf(expected)}`)
  const [theirs, ours] = [expected, got].map((message) => valuesOf(message, trial)) as [Values, Values]
  for (const name of new Set([...theirs.keys(), ...ours.keys()])) {
    if (theirs.get(name) !== ours.get(name))
      found.push(`${name}: ${ours.get(name) ?? 'nothing'} instead of ${theirs.get(name) ?? 'nothing'}`)
  }
  const [body, sent] = [decoded(expected), decoded(got)]
  if (!sent) found.push('a body that its coding does not fit')
  else if (body && !body.equals(sent)) found.push(`the body ${shortened(sent)} instead of ${shortened(body)}`)
  return found
}

type Values = ReadonlyMap<string, string>

function valuesOf({ headers }: Message, { stack }: Trial): Values {
  const values = new Map<string, string>()
  for (const [name, value] of headers) {
    if (ASIDE.has(name) || ECHOED.has(name)) continue
    // Compressed or not is decided by what is known of the length; the body is compared decoded.
    if (stack.includes('compression') && (name === 'content-encoding' || name === 'vary' || name === 'etag')) continue
    const before = values.get(name)
    values.set(name, before === undefined ? value : `${before}, ${value}`)
  }
  const vary = values.get('vary')
  if (vary !== undefined) values.set('vary', [...new Set(vary.toLowerCase().split(/, */))].toSorted().join(', '))
  return values
}

function decoded({ headers, body }: Message): Buffer | null {
  const coding = headers.find(([name]) => name === 'content-encoding')?.[1]
  if (body.byteLength === 0 || coding === undefined) return body
  try {
    if (coding === 'gzip') return gunzipSync(body)
    if (coding === 'deflate') return inflateSync(body)
    if (coding === 'br') return brotliDecompressSync(body)
    return body
  } catch {
    return null
  }
}

function wordsOf({ status, reason, body }: Message): string {
  return `${status} ${reason} ${shortened(body)}`
}

function shortened(body: Buffer): string {
  const text = body.toString('latin1')
  return JSON.stringify(text.length > 60 ? `${text.slice(0, 60)}… (${body.byteLength})` : text)
}
