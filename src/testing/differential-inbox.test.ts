import { describeModelOnPostgres, describeModelOnSqlite, type Comparison } from '../../test/support/describe-model.ts'
import { besideEachOther } from './differential/beside.ts'
import { InboxPlayer } from './differential/inbox-player.ts'
import { drawInboxScript } from './differential/inbox-script.ts'
import { inMemory } from './differential/subjects.ts'
import { Dice } from './sim/dice.ts'

const LENGTH = 50

/** Messages, dead letters and redrives. */
const MESSAGES: Comparison = {
  scripts: 80,
  length: LENGTH,
  async compare(seed, real, held) {
    const consumer = `diff-${process.pid}-${seed}`
    const players = [new InboxPlayer(inMemory(), consumer), new InboxPlayer(real, consumer)] as const
    for (const player of players) await player.open()
    const [expected, told] = await besideEachOther(players, drawInboxScript(new Dice(seed), LENGTH, held), held)
    return [told, expected]
  },
}

describeModelOnPostgres('the inbox', MESSAGES)
describeModelOnSqlite('the inbox', MESSAGES)
