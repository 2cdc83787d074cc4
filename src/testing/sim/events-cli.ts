import { readArguments } from './arguments.ts'
import type { Wishes } from './arguments.ts'
import { mergeEvents, newEventsTally, workEvents } from './events.ts'
import type { EventsShift, EventsTally } from './events.ts'
import { apart, isWorker, progressOf, serve } from './workers.ts'

/** Below this number of events, a second process does not pay off. */
const ALONE_MAX = 5_000
const BROKEN_SHOWN = 5

/** `npm run sim:events -- --events 1000000 --seed 1 --json` */
async function main(wishes: Wishes): Promise<number> {
  const startedAt = performance.now()
  const workers = wishes.events <= ALONE_MAX ? 1 : wishes.workers
  const progress = progressOf(workers, wishes.events, 'events')
  const shifts = Array.from({ length: workers }, (_, i): EventsShift => {
    const share = Math.floor(wishes.events / workers) + (i < wishes.events % workers ? 1 : 0)
    return { events: share, seed: wishes.seed + i, stride: workers }
  })
  const parts = await Promise.all(
    shifts.map((shift, i) =>
      workers === 1
        ? workEvents(shift, (done) => progress(i, done))
        : apart<EventsTally>(shift, (done) => progress(i, done)),
    ),
  )
  const tally = newEventsTally()
  for (const part of parts) mergeEvents(tally, part)
  const { broken, ...counts } = tally
  const summary = { ...counts, violations: broken.length, seconds: Math.round((performance.now() - startedAt) / 1000) }
  const lines = Object.entries(summary).map(([name, count]) => `${name} ${count}`)
  process.stdout.write(wishes.json ? `${JSON.stringify(summary)}\n` : `${lines.join('\n')}\n`)
  for (const { seed, violations } of broken.slice(0, BROKEN_SHOWN))
    process.stderr.write(`seed ${seed}: ${violations.slice(0, BROKEN_SHOWN).join('\n  ')}\n`)
  return broken.length > 0 ? 1 : 0
}

function start(): void {
  const wishes = readArguments(process.argv.slice(2), 'events')
  if (typeof wishes === 'string') {
    process.stderr.write(`sim:events: ${wishes}\n`)
    process.exitCode = 2
    return
  }
  void main(wishes).then((code) => {
    process.exitCode = code
  })
}

if (isWorker()) serve(workEvents)
else start()
