/**
 * A service that can be killed: it consumes, and its broker delivers the same ids again and again, in random order.
 * Arguments: the database's URL, how many messages there are.
 */
import { openRedriveWorld } from './world.ts'
import { messageAt } from './letters.ts'

const [url = '', count = '0'] = process.argv.slice(2)
const world = await openRedriveWorld('pg', url)
world.pauseMs = 1
await world.consumer({ concurrency: 4 }).start()
process.send?.({ redelivered: 0 })
let redelivered = 0
for (;;) {
  if (world.broker.left < 100) {
    const some = Array.from({ length: 50 }, () => messageAt(Math.floor(Math.random() * Number(count))))
    world.broker.publish(...some)
    redelivered += some.length
    process.send?.({ redelivered })
  }
  await new Promise((resolve) => setTimeout(resolve, 60))
}
