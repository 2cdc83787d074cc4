/** A stage in a process of its own: stage-process <stage> <database> <broker's address> <place> <id> */
import '../broker/support/with-parent.ts'
import { startStage, type Stage } from './world.ts'

const [stage = '', database = '', url = '', place = '', id = ''] = process.argv.slice(2)
await startStage(stage as Stage, { database, url, place }, id)
process.stdout.write('ready\n')
