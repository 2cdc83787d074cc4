import { strict as assert } from 'node:assert'
import { HEAD, type StoredChunk } from '../../store/streams.ts'
import type { Claim, SqlStore } from '../../store/store.ts'
import { answerOf, claimOf, completing, DEADLINE_MS, leaseOf, newKey, pass, winLease } from './make.ts'
import { recordOf } from './leases.ts'
import { sweepAll } from './retention.ts'
import type { Case } from './subject.ts'

const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text)
const shown = (chunks: readonly StoredChunk[]): [number, string][] =>
  chunks.map(({ start, bytes }) => [start, new TextDecoder().decode(bytes)])

/** Wins a lease and writes the head, and the text in chunks of two bytes. */
async function record(store: SqlStore<unknown>, claim: Claim, text: string, leaseMs?: number) {
  const { token, life } = await winLease(store, claim, leaseMs)
  const of = { id: claim.id, token, life }
  assert.equal(await store.streams.append({ ...of, start: HEAD, bytes: bytesOf('head') }), true)
  for (let start = 0; start < text.length; start += 2) {
    assert.equal(await store.streams.append({ ...of, start, bytes: bytesOf(text.slice(start, start + 2)) }), true)
  }
  return of
}

const read = (store: SqlStore<unknown>, of: { id: string; life: string }, from: number, bytes = 1e6) =>
  store.streams.read({ id: of.id, life: of.life, from, bytes }).then(shown)

export const STREAM_CASES: readonly Case[] = [
  {
    name: 'streams: chunks are read in order, from the one that holds the position',
    async test({ store }) {
      const of = await record(store, claimOf(newKey()), 'abcdef')
      assert.deepEqual(await read(store, of, HEAD), [[HEAD, 'head'], [0, 'ab'], [2, 'cd'], [4, 'ef']]) // prettier-ignore
      assert.deepEqual(await read(store, of, 3), [[2, 'cd'], [4, 'ef']]) // prettier-ignore
      assert.deepEqual(await read(store, of, 4), [[4, 'ef']])
      assert.deepEqual(await read(store, of, 99), [[4, 'ef']])
      assert.deepEqual(await read(store, of, 0, 3), [[0, 'ab'], [2, 'cd']]) // prettier-ignore
      assert.deepEqual(await read(store, of, 0, 1), [[0, 'ab']])
      assert.deepEqual(await read(store, { ...of, life: '1' }, HEAD), [])
      assert.deepEqual(await read(store, { ...of, id: claimOf(newKey()).id }, HEAD), [])
    },
  },
  {
    name: 'streams: bytes come back as they were, and a position is written once',
    async test({ store }) {
      const of = await record(store, claimOf(newKey()), '')
      const bytes = Uint8Array.from({ length: 70_000 }, (_, n) => n % 251)
      assert.equal(await store.streams.append({ ...of, start: 0, bytes }), true)
      assert.equal(await store.streams.append({ ...of, start: 0, bytes: bytesOf('other') }), true)
      const [chunk, ...others] = await store.streams.read({ id: of.id, life: of.life, from: 0, bytes: 10 })
      assert.equal(Buffer.compare(chunk?.bytes ?? new Uint8Array(0), bytes), 0)
      assert.equal(others.length, 0)
    },
  },
  {
    name: 'streams: a fenced attempt appends nothing, and the next attempt goes on behind it',
    async test({ store }) {
      const claim = claimOf(newKey())
      const old = await record(store, claim, 'ab', 10)
      await pass(40)
      // The token decides, not the clock.
      assert.equal(await store.streams.append({ ...old, start: 2, bytes: bytesOf('cd') }), true)
      const taken = await store.leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) })
      assert.ok(taken)
      assert.equal(taken.life, old.life)
      assert.equal(await store.streams.append({ ...old, start: 4, bytes: bytesOf('!!') }), false)
      const held = { id: claim.id, token: taken.token, life: taken.life }
      assert.equal(await store.streams.append({ ...held, start: 4, bytes: bytesOf('ef') }), true)
      assert.deepEqual(await read(store, held, 0), [[0, 'ab'], [2, 'cd'], [4, 'ef']]) // prettier-ignore
      assert.equal(await store.leases.finish({ ...held, claim, answer: answerOf('end') }), true)
      assert.equal(await store.streams.append({ ...held, start: 6, bytes: bytesOf('gh') }), false)
    },
  },
  {
    name: 'streams: an atomic claim does not begin a stream again that was left in the middle',
    needs: ['transactions'],
    async test({ store }) {
      const claim = claimOf(newKey())
      const of = await record(store, claim, 'ab')
      await store.leases.release(of)
      const seen = await recordOf(store, claim)
      const { session } = await store.begin({ claim, deadlineMs: DEADLINE_MS })
      assert.equal(await session.renew(claim, seen), null)
      await session.rollback()
      assert.equal((await read(store, of, 0)).length, 1)
    },
  },
  {
    name: 'streams: the chunks go when an operator ends the operation, and when its data is erased',
    needs: ['erasure'],
    async test({ store }) {
      const claim = claimOf(newKey())
      const of = await record(store, claim, 'ab')
      await store.leases.release(of)
      assert.equal(await store.leases.settle({ claim, verdict: { kind: 'failed', answer: answerOf('no', 402) } }), true)
      assert.deepEqual(await read(store, of, HEAD), [])
      const other = claimOf(newKey())
      const finished = await record(store, other, 'ab')
      await store.leases.finish({ ...finished, claim: other, answer: answerOf('end') })
      assert.equal((await read(store, finished, 0)).length, 1)
      const ALL = { after: null, limit: 100, dryRun: false }
      assert.equal((await store.erasure.operations({ ...ALL, scope: other.scope, id: other.id })).erased, 1)
      assert.deepEqual(await read(store, finished, HEAD), [])
    },
  },
  {
    name: 'streams: the chunks are swept with their record',
    needs: ['retention'],
    async test(subject) {
      const { store } = subject
      const claim = claimOf(newKey(), 1, { replayForMs: 10, goneForMs: 10 })
      const of = await record(store, claim, 'ab')
      await store.leases.finish({ ...of, claim, answer: answerOf('end') })
      const kept = await record(store, claimOf(newKey()), 'ab')
      await pass(60)
      await sweepAll(subject)
      assert.equal((await store.read({ id: claim.id })).record, null)
      assert.deepEqual(await read(store, of, HEAD), [])
      assert.equal((await read(store, kept, 0)).length, 1)
    },
  },
  {
    name: 'streams: a new life begins without the chunks of the old one',
    async test({ store }) {
      const claim = claimOf(newKey(), 1, { replayForMs: 10 })
      const old = await record(store, claim, 'ab')
      await store.leases.finish({ ...old, claim, answer: answerOf('end') })
      await pass(40)
      const taken = await store.leases.takeOver({ ...leaseOf(claim), seen: await recordOf(store, claim) })
      assert.ok(taken)
      assert.deepEqual(await read(store, { id: claim.id, life: taken.life }, HEAD), [])
      // A key that is used again and again must not collect the streams of its old lives.
      assert.deepEqual(await read(store, old, HEAD), [])
    },
  },
  {
    name: 'streams: a new life of an atomic operation leaves no chunks of the old one',
    needs: ['transactions'],
    async test({ store }) {
      const claim = claimOf(newKey(), 1, { replayForMs: 10 })
      const old = await record(store, claim, 'ab')
      await store.leases.finish({ ...old, claim, answer: answerOf('end') })
      await pass(40)
      const seen = await recordOf(store, claim)
      const { session } = await store.begin({ claim, deadlineMs: DEADLINE_MS })
      const claimed = await session.renew(claim, seen)
      assert.ok(claimed)
      assert.equal(await session.complete(completing(claim, claimed, '1')), 'committed')
      assert.deepEqual(await read(store, old, HEAD), [])
    },
  },
]
