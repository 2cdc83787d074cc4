import { openSync, writeSync } from 'node:fs'
import { postgresBed } from './bed-postgres.ts'
import { sqliteBed } from './bed-sqlite.ts'
import type { Order } from './children.ts'
import { Player } from './play/player.ts'
import { Trace } from './trace.ts'
import { turns } from './play/turns.ts'

/** One process that plays one program, and kills itself where the program says so. */
const url = process.env['FUZZ_URL'] ?? ''
const bed = await (process.env['FUZZ_STORE'] === 'sqlite'
  ? sqliteBed({ file: url })
  : postgresBed(url, { prepared: true }))
const place = await bed.place(0)

async function play({ program, name, file }: Order): Promise<void> {
  const out = openSync(file, 'a')
  const trace = new Trace([], (at, entry) => {
    writeSync(out, `${JSON.stringify(entry)}\n`)
    if (program.kill?.at === at) void dieAfter(program.kill.lag)
  })
  await new Player({ program, place, trace, name, lease: '1s' }).main()
  process.exit(0)
}

async function dieAfter(lag: number): Promise<void> {
  await turns(lag)
  process.kill(process.pid, 'SIGKILL')
}

process.on('message', (order: Order) => void play(order))
process.on('disconnect', () => process.exit(1))
process.send?.('ready')
