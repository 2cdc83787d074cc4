import type { Patch } from './patches.ts'

/** Mutants of the limits that a user sets: pauses, stops, rates, filters and attempts of relays. */
export const LIMIT_PATCHES: readonly Patch[] = [
  {
    of: 'I32',
    name: 'a relay hands over what it has read while it is paused',
    weather: 'pauses',
    file: 'src/outbox/sender.ts',
    find: 'if (stopping || paused || held ||',
    replace: 'if (stopping || held ||',
  },
  {
    of: 'I38',
    name: 'a relay that stops hands over what it has read',
    weather: 'pauses',
    file: 'src/outbox/sender.ts',
    find: 'if (stopping || paused ||',
    replace: 'if (paused ||',
  },
  {
    of: 'I39',
    name: 'a failure that is not final parks at once',
    file: 'src/outbox/holding.ts',
    find: 'const over = !retryable || attempts >= parts.attempts',
    replace: 'const over = attempts > 0',
  },
  {
    of: 'I33',
    name: 'a rate counts calls of the sink, not events',
    weather: 'pauses',
    file: 'src/outbox/sender.ts',
    find: 'this.#throttle.started(items.length)',
    replace: 'this.#throttle.started(1)',
  },
  {
    of: 'I33',
    name: 'a rate that was not used is saved up',
    weather: 'pauses',
    file: 'src/platform/rate-limit.ts',
    find: 'Math.min(Math.max(1, this.#rate), this.#tokens + ',
    replace: 'Math.min(Infinity, this.#tokens + ',
  },
  {
    of: 'I21',
    name: 'nobody comes back when a rate has room again',
    weather: 'pauses',
    file: 'src/platform/rate-limit.ts',
    find: '      this.#again()\n',
    replace: '',
  },
  {
    of: 'I34',
    name: 'a delayed event is sent against the filter',
    weather: 'filters',
    file: 'src/outbox/batch.ts',
    find: 'if (!wants(stored.type) || isErasedEvent(stored)) {',
    replace: "if (!wants(stored.type) && !stored.headers.includes('notbefore')) {",
  },
  {
    of: 'I7',
    name: 'an event that is passed over takes the events behind it along',
    weather: 'filters',
    file: 'src/outbox/batch.ts',
    find: `      item.state = 'passed'
      continue
    }
    const parked`,
    replace: `      item.state = 'passed'
      continue
    }
    if (items.at(-2)?.state === 'passed') item.state = 'passed'
    const parked`,
  },
].map((patch) => ({ ...patch, relays: true, consumers: true }) as Patch)
