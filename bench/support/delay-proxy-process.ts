import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'

/** How long one nap lasts while something is under way. Timers of Node know whole milliseconds only. */
const NAP_MS = 0.1

interface Parcel {
  readonly dueAt: number
  deliver(): void
}

const [host, port, delay] = process.argv.slice(2) as [string, string, string]
const delayMs = Number(delay)
const bed = new Int32Array(new SharedArrayBuffer(4))
const underWay: Parcel[] = []

/** All parcels take equally long, so the oldest is always the next one due. */
function deliverDue(): void {
  const now = performance.now()
  let due = 0
  while (due < underWay.length && (underWay[due] as Parcel).dueAt <= now) (underWay[due++] as Parcel).deliver()
  underWay.splice(0, due)
  if (underWay.length === 0) return
  if (due === 0) Atomics.wait(bed, 0, 0, NAP_MS)
  setImmediate(deliverDue)
}

function send(deliver: () => void): void {
  underWay.push({ dueAt: performance.now() + delayMs, deliver })
  if (underWay.length === 1) setImmediate(deliverDue)
}

function pass(from: Socket, to: Socket): void {
  from.on('data', (bytes: Buffer) => send(() => to.writable && to.write(bytes)))
  from.on('end', () => send(() => to.end()))
  from.on('error', () => to.destroy())
}

const server = createServer((client) => {
  const upstream = connect(Number(port), host)
  client.setNoDelay(true)
  upstream.setNoDelay(true)
  pass(client, upstream)
  pass(upstream, client)
})
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
process.on('disconnect', () => process.exit(0))
