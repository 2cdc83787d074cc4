import { PARKED_LIST_MAX } from '../limits.ts'
import type { ParkedOptions } from '../once/parked-types.ts'
import type { Values } from './arguments.ts'
import { ago, shortened, table, using, type Run } from './report.ts'
import { UsageError } from './usage.ts'
import { accountableOf, numberOf } from './values.ts'

export const list: Run = (given) => {
  const { destination, aggregate } = chosen(given.values)
  const limit = numberOf(given.values, 'limit', { min: 1, max: PARKED_LIST_MAX, whole: true })
  const after = numberOf(given.values, 'after', { min: 0, max: Number.MAX_SAFE_INTEGER, whole: true })
  const page = { ...(limit ? { limit } : {}), ...(after ? { after } : {}) }
  return using(given, async ({ once }) => {
    const events = await once.parked.list({ destination, ...(aggregate ? { aggregate } : {}), ...page })
    const now = Date.now()
    const head = ['id', 'type', 'aggregate', 'held for', 'attempts', 'reason']
    const rows = events.map((e) => [
      e.id,
      shortened(e.type, 24),
      shortened(e.aggregate, 40),
      ago(now - e.heldAt.getTime()),
      e.attempts,
      e.reason === null ? '(behind another one)' : shortened(e.reason, 60),
    ])
    return { text: events.length === 0 ? 'nothing is parked' : table(head, rows), data: events }
  })
}

export const release: Run = (given) => {
  const [options, by] = [chosen(given.values), accountableOf(given.values)]
  return using(given, async ({ once }) => {
    const released = await once.parked.release({ ...options, ...by })
    return { text: `${released} events will be sent`, data: { released } }
  })
}

export const skip: Run = (given) => {
  const [options, by] = [chosen(given.values), accountableOf(given.values)]
  return using(given, async ({ once }) => {
    const skipped = await once.parked.skip({ ...options, ...by })
    return { text: `${skipped} events were given up`, data: { skipped } }
  })
}

function chosen({ destination, aggregate, id }: Values): ParkedOptions {
  if (destination === undefined) throw new UsageError('--destination is needed: the name of the sink')
  if (id !== undefined && id.length > 1) throw new UsageError('--id names one event')
  const [only] = id ?? []
  return { destination, ...(aggregate === undefined ? {} : { aggregate }), ...(only === undefined ? {} : { id: only }) }
}
