import { eventsOf } from '../trace.ts'
import type { Checker } from './checker.ts'

export const givenUp: Checker = {
  id: 'I39',
  says: 'a relay gives up an event after all its attempts, or at a final refusal, and not before',
  check(trace) {
    const [settings] = eventsOf(trace, 'relay')
    if (settings === undefined) return []
    const { attempts: allowed } = settings.relay
    const plans = new Map(eventsOf(trace, 'plan').map(({ plan }) => [plan.key, plan]))
    const isFinal = (event: string): boolean => {
      const [key = '', , ordinal] = event.split('/')
      const temper = plans.get(key)?.events[Number(ordinal)]?.temper
      return temper?.is === 'poison' && !temper.retryable
    }
    return eventsOf(trace, 'held').flatMap(({ event, state, reason, attempts }) => {
      if (state !== 'parked' && state !== 'skipped') return []
      // It waits behind another one, or an operator skipped it.
      if (reason === null || attempts === 0 || attempts >= allowed || isFinal(event)) return []
      return [`${event} is ${state} after ${attempts} of ${allowed} attempts`]
    })
  },
}
