import { expect, it } from 'vitest'
import { describeSqlite } from '../../../test/support/sqlite.ts'
import { makeClaim } from '../../../test/support/sqlite-data.ts'
import { STREAM_CHUNK_BYTES_MAX } from '../../stream/limits.ts'

const CHUNKS = 100

describeSqlite('streams', (lab) => {
  it('a read costs the bytes of its answer, not those of the whole stream', async () => {
    const store = await lab.store()
    const claim = makeClaim()
    const { claimed } = await store.leases.claim({ claim, leaseMs: 60_000, recover: null })
    const of = { id: claim.id, token: claimed!.token, life: claimed!.life }
    const bytes = new Uint8Array(STREAM_CHUNK_BYTES_MAX).fill(97)
    for (let n = 0; n < CHUNKS; n++) {
      expect(await store.streams.append({ ...of, start: n * bytes.byteLength, bytes })).toBe(true)
    }
    const measure = async (from: number): Promise<number> => {
      const began = performance.now()
      for (let n = 0; n < 10; n++) expect(await store.streams.read({ ...of, from, bytes: 1 })).toHaveLength(1)
      return performance.now() - began
    }
    const last = await measure((CHUNKS - 1) * bytes.byteLength)
    // A read of all sizes is slower, but not by the time that 25 MiB take.
    expect(await measure(0)).toBeLessThan(10 * last + 50)
  })
})
