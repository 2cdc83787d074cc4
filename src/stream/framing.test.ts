import { expect, it } from 'vitest'
import { Framer } from './framing.ts'

const PARTS = 60_000

it.each(['lines', 'events'] as const)(
  'one of the %s that comes in many small parts is not copied for each',
  (framing) => {
    const framer = new Framer(framing, 0)
    const part = new Uint8Array(4).fill(97)
    const began = performance.now()
    let pieces = 0
    for (let n = 0; n < PARTS; n++) pieces += framer.push(part).length
    const [whole] = framer.push(new Uint8Array([10, 10]))
    expect(pieces).toBe(0)
    expect(whole!.byteLength).toBeGreaterThan(PARTS * part.byteLength)
    // The copies would have 7 GB.
    expect(performance.now() - began).toBeLessThan(1_000)
  },
)
