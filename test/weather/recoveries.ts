import { setTimeout as sleep } from 'node:timers/promises'
import type { Duration } from '../../src/index.ts'
import { closing, openScene, postsOf, type AtEnd, type Scene } from './scene.ts'
import { judge, type Verdict } from './verifier.ts'
import { Journal, named, type NamedViolation } from './violations.ts'

/**
 * A segment is turned over after half a second. Sent events are kept for longer than the checks after a recovery take.
 */
const RESEND_FOR: Duration = '3500ms'
const TURNED_MS_MAX = 60_000
const WARM_UP_MS = 2_000

export interface RecoveriesParams {
  readonly crashes: number
  readonly promotions: number
  tell(line: string): void
}

export interface RecoveriesResult extends Verdict {
  readonly crashes: number
  readonly promotions: number
  readonly turnedSegments: number
  /** The time from the moment the server accepts connections to the next committed order. */
  readonly worstPublishMs: number
  readonly medianPublishMs: number
  readonly stuck: number
  readonly silent: number
  readonly droppedByFailover: number
  /** The first violations. */
  readonly violations: readonly NamedViolation[]
}

/** Runs crash recoveries and promotions, each after a segment was turned over. Afterwards it verifies every order. */
export function recoveries(params: RecoveriesParams): Promise<RecoveriesResult> {
  return closing(params.tell, (atEnd) => run(params, atEnd))
}

async function run({ crashes, promotions, tell }: RecoveriesParams, atEnd: AtEnd): Promise<RecoveriesResult> {
  const posts = (hook: string): ReturnType<typeof postsOf> => postsOf(hook)
  const scene = await openScene({ resendFor: RESEND_FOR, sweepMs: 250, posts, tell }, atEnd)
  const { database, hook, operator, crew, watch } = scene
  await sleep(WARM_UP_MS)
  for (const [index, kind] of turns(crashes, promotions).entries()) {
    await turnedSegment(scene)
    await RECOVERIES[kind](scene)
    tell(`${index + 1}: ${kind}, published after ${Math.round(watch.publishMs.at(-1) ?? 0)} ms`)
  }
  watch.end()
  await crew.dismiss('producer')
  const first = crew.of('consumer').filter(({ post }) => post.args[0] === 'v1')
  await Promise.all(first.map((member) => crew.replace(member, 'SIGTERM', ['v2', ...member.post.args.slice(1)])))
  await crew.untilReady()
  const redriving = operator.redriveAll()
  await watch.recovers('the recoveries')
  await redriving
  const evidence = { hook: hook.first, dropped: watch.dropped }
  const { violations, ...verdict } = await judge((text, values) => database.primary.rows(text, values), evidence)
  const sorted = watch.publishMs.map((ms) => Math.round(ms)).sort((a, b) => a - b)
  return {
    ...verdict,
    crashes,
    promotions,
    turnedSegments: operator.turned,
    worstPublishMs: sorted.at(-1) ?? 0,
    medianPublishMs: sorted[sorted.length >> 1] ?? 0,
    stuck: watch.stuck,
    silent: watch.silent,
    droppedByFailover: watch.dropped.size,
    violations: named([...violations, ...watch.violations], new Journal()),
  }
}

type Recovery = (scene: Scene) => Promise<void>

const RECOVERIES = {
  async restart({ database, watch }) {
    await database.restartAtOnce()
    await watch.publishes()
  },
  async killedBackend({ database, watch }) {
    if (!(await database.killBackend())) await database.restartAtOnce()
    await watch.publishes()
  },
  // A promotion calls the watch by itself as soon as the server is promoted, before a new standby exists.
  async synchronous({ database }) {
    await database.promoteSynchronous()
  },
  async asynchronous({ database, watch }) {
    const { orders, effects } = await database.promoteAsynchronous()
    for (const event of [...orders, ...effects]) watch.dropped.add(event)
  },
} satisfies Record<string, Recovery>

/** Distributes the promotions evenly between the crashes. */
function turns(crashes: number, promotions: number): (keyof typeof RECOVERIES)[] {
  const all: (keyof typeof RECOVERIES)[] = []
  for (let crash = 0, promotion = 0; crash < crashes || promotion < promotions;) {
    const isCrash = crash < crashes && crash * promotions <= promotion * crashes
    if (isCrash) all.push(crash++ % 2 === 0 ? 'restart' : 'killedBackend')
    else all.push(promotion++ % 2 === 0 ? 'synchronous' : 'asynchronous')
  }
  return all
}

async function turnedSegment({ operator }: Scene): Promise<void> {
  const { turned } = operator
  const deadline = performance.now() + TURNED_MS_MAX
  while (operator.turned === turned) {
    if (performance.now() > deadline) throw new Error(`no segment was turned over within ${TURNED_MS_MAX} ms`)
    await sleep(100)
  }
}
