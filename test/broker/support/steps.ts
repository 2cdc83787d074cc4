import type { Received } from '../../../src/testing/sink-contract/index.ts'
import type { Step, World } from '../../relay/world.ts'

const PER_OPERATION = 20
const AT_A_TIME = 8

/**
 * Publishes `count` steps over `aggregates` aggregates: each operation takes the next numbers of some of them under the
 * locks of their rows, so that the order of an aggregate's numbers is the order of its commits.
 */
export async function makeSteps(world: World, options: { count: number; aggregates: number }): Promise<void> {
  const run = Math.random().toString(36).slice(2)
  let left = options.count
  const producer = async (who: number): Promise<void> => {
    for (let turn = 0; left > 0; turn++) {
      const size = Math.min(PER_OPERATION, left)
      left -= size
      const wanted = new Map<string, number>()
      for (let i = 0; i < size; i++) {
        const id = `a${Math.floor(Math.random() * options.aggregates)}`
        wanted.set(id, (wanted.get(id) ?? 0) + 1)
      }
      const chosen = [...wanted].toSorted(([a], [b]) => (a < b ? -1 : 1))
      await world.once.run({ scope: 's', key: `${run}-${who}-${turn}`, input: null }, async ({ tx, publish }) => {
        for (const [aggregate, more] of chosen) {
          const { rows } = await tx.query<{ n: number }>(
            `insert into counter values ($1, $2) on conflict (id) do update set n = counter.n + $2 returning n`,
            [aggregate, more],
          )
          const last = rows[0]?.n ?? 0
          for (let n = last - more + 1; n <= last; n++) await publish('step.made', { aggregate, n })
        }
      })
    }
  }
  await Promise.all(Array.from({ length: AT_A_TIME }, (_, who) => producer(who)))
}

export function stepsOf(received: readonly Received[]): Step[] {
  return received.map(({ data }) => data as Step)
}
