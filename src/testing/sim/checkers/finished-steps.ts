import type { Checker } from './checker.ts'

export const finishedSteps: Checker = {
  id: 'I16',
  says: 'a later attempt does not repeat a finished step; it repeats a started step without a key only if told to',
  check(trace) {
    const broken: string[] = []
    const done = new Map<string, number>()
    const begun = new Map<string, number>()
    const reruns = new Map<string, number>()
    const started = new Map<number, number>()
    /** The trace position at which each attempt won its lease. */
    const won = new Map<string, number>()
    for (const [i, event] of trace.entries()) {
      if (event.kind === 'run') {
        // An attempt counts from the moment it won its lease. It may have slept before its start, while a step was
        // settled.
        const { exec, key, record, attempt } = event
        started.set(exec, won.get(`${key} ${record?.life} ${attempt}`) ?? i)
      } else if (event.kind === 'verdict' && event.rerun) reruns.set(`${event.key} ${event.life} ${event.step}`, i)
      else if (event.kind === 'commit') {
        for (const { key, after } of event.records) {
          const name = `${key} ${after?.life} ${after?.attempt}`
          if (after?.state === 'inProgress' && !won.has(name)) won.set(name, i)
        }
        for (const { key, before, after } of event.steps) {
          const name = `${key} ${(after ?? before)?.life} ${(after ?? before)?.name}`
          if (after?.state === 'done') done.set(name, i)
          else done.delete(name)
          if (after?.state === 'started' && !begun.has(name)) begun.set(name, i)
          if (after === null) begun.delete(name)
        }
      } else if (event.kind === 'provider' && event.life !== null) {
        const { key, life, step, exec, keyed } = event
        const name = `${key} ${life} ${step}`
        const start = started.get(exec) ?? 0
        if ((done.get(name) ?? Infinity) < start) broken.push(`execution ${exec} of ${key} made step ${step} again`)
        const unsure =
          !keyed && (begun.get(name) ?? Infinity) < start && !((reruns.get(name) ?? -1) > (begun.get(name) ?? 0))
        if (unsure) broken.push(`execution ${exec} of ${key} made the unkeyed step ${step} again on nobody's word`)
      }
    }
    return broken
  },
}
