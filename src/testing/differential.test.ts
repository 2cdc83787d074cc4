import { describeModelOnPostgres } from '../../test/support/describe-model.ts'
import { besideEachOther } from './differential/beside.ts'
import { Player } from './differential/player.ts'
import { drawScript } from './differential/script.ts'
import { inMemory } from './differential/subjects.ts'
import { Dice } from './sim/dice.ts'

const LENGTH = 40

describeModelOnPostgres('keys', {
  scripts: 120,
  length: LENGTH,
  async compare(seed, real) {
    const prefix = `diff-${process.pid}-${seed}-`
    const model = inMemory()
    const players = [new Player(model, prefix), new Player(real, prefix)] as const
    const [expected, told] = await besideEachOther(players, drawScript(new Dice(seed), LENGTH))
    await model.close()
    return [told, expected]
  },
})
