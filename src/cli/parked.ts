import { PARKED_LIST_MAX } from '../limits.ts'
import { instanceOf } from '../once/instance.ts'
import type { ParkedOptions } from '../once/parked-types.ts'
import type { Values } from './arguments.ts'
import { ago, counted, shortened, table, using, type Report, type Run } from './report.ts'
import { EXIT, UsageError } from './usage.ts'
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
      e.reason === null ? '(behind another event)' : shortened(e.reason, 60),
    ])
    return { text: events.length === 0 ? 'nothing is parked' : table(head, rows), data: events }
  })
}

export const release: Run = (given) => {
  const [options, by] = [chosen(given.values), accountableOf(given.values)]
  return using(given, async ({ once }) => {
    const released = await once.parked.release({ ...options, ...by })
    return { text: `${counted(released, 'event')} will be sent again`, data: { released } }
  })
}

export const skip: Run = (given) => {
  const [options, by] = [chosen(given.values), accountableOf(given.values)]
  return using(given, async ({ once }) => {
    const skipped = await once.parked.skip({ ...options, ...by })
    return { text: `${counted(skipped, 'event')} skipped`, data: { skipped } }
  })
}

/** Removes a destination. Until then the outbox keeps its events. A running relay would register it again. */
export const forget: Run = (given) => {
  const { operand: destination = '', values } = given
  const accountable = accountableOf(values)
  return using(given, async ({ once }) => {
    const found = (await once.status()).destinations.find(({ name }) => name === destination)
    const refuse = (text: string): Report => ({ text, data: { forgotten: false }, exit: EXIT.failed })
    if (!found) return refuse(`there is no destination '${destination.slice(0, 80)}'`)
    const { relays, waiting } = found
    if (relays > 0) return refuse(`${counted(relays, 'relay')} to '${destination}' running: stop every relay first`)
    if (waiting > 0 && !values.force)
      return refuse(`${counted(waiting, 'event')} waiting for '${destination}' would never be sent there; use --force`)
    const detail = JSON.stringify({ destination })
    const { redrives } = instanceOf(once).core.namespace
    await redrives?.write({ ...accountable, action: 'destination forgotten', redrive: null, detail })
    await once.destinations.remove(destination)
    return { text: `'${destination}' is forgotten`, data: { forgotten: true } }
  })
}

function chosen({ destination, aggregate, id }: Values): ParkedOptions {
  if (destination === undefined) throw new UsageError('--destination is needed: the name of the sink')
  if (id !== undefined && id.length > 1) throw new UsageError('--id names one event')
  const [only] = id ?? []
  return { destination, ...(aggregate === undefined ? {} : { aggregate }), ...(only === undefined ? {} : { id: only }) }
}
