import { flushStatistics } from '../support/costs.ts'
import { FRAMEWORKS, type Framework } from './cases.ts'
import { startExpress } from './express.ts'
import { startFastify } from './fastify.ts'
import { startHono } from './hono.ts'
import { openWork, type Work } from './work.ts'

/** The server under load, in a process of its own: one framework, bare and protected. Tells its parent its port. */
const [framework, url] = process.argv.slice(2) as [Framework, string]
const START: Readonly<Record<Framework, (work: Work) => Promise<number>>> = {
  fastify: startFastify,
  express: startExpress,
  hono: startHono,
}
if (!FRAMEWORKS.includes(framework)) throw new Error(`there is no framework ${framework}`)
const work = await openWork(url)
process.send?.(await START[framework](work))
process.on('message', () => {
  Promise.all(work.pools.map(flushStatistics)).then(
    () => process.send?.('flushed'),
    (error: unknown) => {
      console.error(error)
      process.exit(1)
    },
  )
})
process.on('disconnect', () => process.exit(0))
