/** A relay in a process of its own: relay-process <broker> <database> <broker's address> <place> <lease> */
import './with-parent.ts'
import type { Duration } from '../../../src/index.ts'
import { openWorld } from '../../relay/world.ts'
import { brokerNamed } from './broker.ts'

const [name = '', database = '', url = '', place = '', lease = '1s'] = process.argv.slice(2)
const broker = await brokerNamed(name)
const to = (await broker.open({ url, place, make: false })).sink()
const world = await openWorld(database, 4)
await world.once.relay({ to, lease: lease as Duration }).start()
process.stdout.write('ready\n')
