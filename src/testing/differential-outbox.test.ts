import { describeModelOnPostgres, describeModelOnSqlite, type Comparison } from '../../test/support/describe-model.ts'
import { besideEachOther } from './differential/beside.ts'
import { OutboxPlayer } from './differential/outbox-player.ts'
import { drawOutboxScript } from './differential/outbox-script.ts'
import { inMemory } from './differential/subjects.ts'
import { Dice } from './sim/dice.ts'

const LENGTH = 60

/** Events, shards and what is held. */
const EVENTS: Comparison = {
  scripts: 40,
  length: LENGTH,
  async compare(seed, real) {
    const prefix = `diff-${process.pid}-${seed}`
    const players = [new OutboxPlayer(inMemory(), prefix), new OutboxPlayer(real, prefix)] as const
    for (const player of players) await player.open()
    const [expected, told] = await besideEachOther(players, drawOutboxScript(new Dice(seed), LENGTH), false)
    return [told, expected]
  },
}

describeModelOnPostgres('the outbox', EVENTS)
describeModelOnSqlite('the outbox', EVENTS)
