import { appendFileSync } from 'node:fs'
import { inProcessSink, type Duration } from '../../src/index.ts'
import { openWorld } from './world.ts'

/** A relay in a process of its own: what it sends is appended to a file, so that it outlives the process. */
const [url = '', file = '', lease = '1s', poison = ''] = process.argv.slice(2)
const world = await openWorld(url, 4)
const to = inProcessSink(
  (event) => {
    if (poison !== '' && event.json.includes(poison)) process.kill(process.pid, 'SIGKILL')
    appendFileSync(file, `${event.json}\n`)
  },
  { name: 'file' },
)
await world.once.relay({ to, lease: lease as Duration, attempts: 3 }).start()
process.stdout.write('ready\n')
process.on('SIGTERM', () => void world.close().then(() => process.exit(0)))
