import type { LetterCounts, StoredLetter } from '../../store/dead-letters.ts'
import type { InboxItem, Tries } from '../../store/inbox.ts'
import type { AuditEntry, RedriveBeat, RedriveItem, StoredPlan, StoredRedrive } from '../../store/redrives.ts'

/** Describes the results of a store in a form in which two stores can be compared: without times and generated ids. */
export class InboxTeller {
  private readonly items: readonly InboxItem[]
  private readonly redrives: number[] = []

  constructor(items: readonly InboxItem[]) {
    this.items = items
  }

  letter(of: StoredLetter): unknown {
    const { id, consumer: _, seq: _seq, parkedAt, settledAt, timeline, ...same } = of
    const errors = (JSON.parse(timeline) as { error: string }[]).map(({ error }) => error)
    const causes = JSON.stringify(JSON.parse(same.causes))
    return { ...same, causes, id: this.name(id), timeline: errors, parked: parkedAt > 0, settled: settledAt !== null }
  }

  tries(all: readonly Tries[]): unknown {
    const told = all.map(({ id, attempts, unfinished, timeline }) => [
      this.name(id),
      attempts,
      unfinished,
      timeline.map(({ error, fingerprint }) => [error, fingerprint]),
    ])
    return told.toSorted(([a], [b]) => Number(a) - Number(b))
  }

  counts({ total, oldestAt, groups }: LetterCounts): unknown {
    const told = groups.map(({ fingerprint, reason, count }) => `${fingerprint} ${reason} ${count}`)
    return { total, any: oldestAt !== null, groups: told.sort() }
  }

  plan({ consumer: _, seenAgoMs, ...same }: StoredPlan): unknown {
    return { ...same, seen: seenAgoMs !== null }
  }

  item({ ord, outcome, starts, copy, letter }: RedriveItem): unknown {
    return [ord, outcome, starts, copy, this.name(letter.id), letter.state, letter.attempts]
  }

  redrive(of: StoredRedrive): unknown {
    const { redrive, consumer: _, createdAt, endedAt, seenAgoMs, ...same } = of
    const times = { created: createdAt > 0, ended: endedAt !== null, seen: seenAgoMs !== null }
    return { ...same, ...times, redrive: this.number(redrive) }
  }

  /** Without a canary, the counts of decided canary letters have no meaning. */
  beat({ canaryDecided, canaryFailed, ...same }: RedriveBeat): unknown {
    return same.canary > 0 ? { ...same, canaryDecided, canaryFailed } : same
  }

  audit({ by, action, redrive, why, detail }: AuditEntry): unknown {
    const said = JSON.parse(detail) as Record<string, unknown>
    return [by, action, redrive === null ? null : this.number(redrive), why, said]
  }

  /** Each store numbers its redrives in its own way, so a redrive is named by its position in the script. */
  number(redrive: number): number {
    if (!this.redrives.includes(redrive)) this.redrives.push(redrive)
    return this.redrives.indexOf(redrive)
  }

  private name(id: string): number {
    return this.items.findIndex((item) => item.id === id)
  }
}
