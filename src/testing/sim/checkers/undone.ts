import { refusalName } from '../../../operation/undo-record.ts'
import { OPERATOR } from '../clients.ts'
import { eventsOf } from '../trace.ts'
import type { TraceEvent } from '../trace.ts'
import type { Plan } from '../plan.ts'
import type { Checker } from './checker.ts'

/** What is known of one life of one key. */
interface Life {
  readonly made: Set<string>
  readonly undone: string[]
}

export const undone: Checker = {
  id: 'I37',
  says: 'before a refusal is answered, each finished step with an undo is undone once, in reverse order; nothing else is',
  check(trace) {
    const broken: string[] = []
    const plans = new Map(eventsOf(trace, 'plan').map(({ plan }) => [plan.key, plan]))
    const lives = new Map<string, Life>()
    const lifeOf = (key: string, life: number): Life => {
      const known = lives.get(`${key} ${life}`) ?? { made: new Set(), undone: [] }
      lives.set(`${key} ${life}`, known)
      return known
    }
    const askedAt = new Map<string, number>()
    const startedAt = new Map<number, number>()
    for (const [i, event] of trace.entries()) {
      if (event.kind === 'run') startedAt.set(event.exec, i)
      else if (event.kind === 'provider' && event.life !== null) {
        // An attempt that lost its lease to an operator may still make its next call. Nobody can prevent that.
        const isLate = (startedAt.get(event.exec) ?? 0) < (askedAt.get(`${event.key} ${event.life}`) ?? -1)
        if (!isLate) lifeOf(event.key, event.life).made.add(event.step)
      } else if (event.kind === 'undone') {
        const { undone: before } = lifeOf(event.key, event.life)
        if (!event.effect) continue
        if (before.includes(event.step)) broken.push(`step ${event.step} of ${event.key} was undone twice`)
        before.push(event.step)
      } else if (event.kind === 'commit') {
        const refusal = event.steps.find(({ after }) => after?.name === refusalName)
        // An attempt records the refusal with `finishStep`, and an operator without it.
        const byOperator = refusal?.after && !event.notes.some(({ op }) => op === 'finishStep')
        if (byOperator) askedAt.set(`${refusal.key} ${refusal.after?.life}`, i)
        broken.push(...judged(event, plans, lifeOf, (name) => askedAt.has(name)))
      }
    }
    return broken
  },
}

function judged(
  { records, answers }: Extract<TraceEvent, { kind: 'commit' }>,
  plans: ReadonlyMap<string, Plan>,
  lifeOf: (key: string, life: number) => Life,
  isAsked: (name: string) => boolean,
): string[] {
  return records.flatMap(({ key, before, after }) => {
    const plan = plans.get(key)
    if (after?.state !== 'completed' || before?.state === 'completed' || plan === undefined) return []
    const text = answers.find((answer) => answer.key === key)?.text
    if (text === null || text === undefined) return []
    const { made, undone: order } = lifeOf(key, after.life)
    if (isAsked(`${key} ${after.life}`) && !text.includes(`"exec":${OPERATOR},`))
      return [`${key} was refused by an operator, but got another answer`]
    const isRefusal = text.includes('"alpha":false')
    const due = isRefusal ? plan.steps.filter(({ name, undo }) => undo === true && made.has(name)) : []
    const expected = due.map(({ name }) => name).toReversed()
    if (expected.join() === order.join()) return []
    return [`${key} was answered, but it had undone [${order.join()}] instead of [${expected.join()}]`]
  })
}
