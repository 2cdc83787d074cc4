import { describe, expect, it } from 'vitest'
import type { HeartbeatParams, Leases } from '../store/store.ts'
import { LeaseHeartbeat } from './lease-heartbeat.ts'

/** A heartbeat whose clock and store are in our hands. */
function make(): {
  heartbeat: LeaseHeartbeat
  tick(ms?: number): void
  beats: { ids: string[]; answer(ours: string[]): void; unsure(id: string): void; fail(): void }[]
  troubles: number
} {
  const timers = new Set<() => void>()
  const beats: ReturnType<typeof make>['beats'] = []
  const leases = {
    heartbeat: ({ leases: held, unsure }: HeartbeatParams) =>
      new Promise<string[]>((resolve, reject) => {
        beats.push({
          ids: held.map(({ id }) => id),
          answer: resolve,
          unsure: (id) => unsure?.(id, new Error('unreachable')),
          fail: () => reject(new Error('unreachable')),
        })
      }),
  }
  let now = 0
  const clock = {
    now: () => now,
    after(_ms: number, callback: () => void) {
      timers.add(callback)
      return () => void timers.delete(callback)
    },
  }
  const made = {
    heartbeat: new LeaseHeartbeat(leases as unknown as Leases, clock, () => made.troubles++),
    tick(ms = 0) {
      now += ms
      for (const callback of Array.from(timers)) {
        timers.delete(callback)
        callback()
      }
    },
    beats,
    troubles: 0,
  }
  return made
}

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

describe('the heartbeat', () => {
  it('renews a lease, though the server of another lease does not answer', async () => {
    const made = make()
    const { heartbeat, tick, beats } = made
    const told: string[] = []
    for (const id of ['a', 'b']) {
      const onLost = (): unknown => told.push(`${id} lost`)
      heartbeat.hold({ id, token: '1', leaseMs: 300, onLost, onLapsed: () => told.push(`${id} lapsed`) })
    }
    tick(100)
    beats[0]!.unsure('b')
    beats[0]!.answer(['a'])
    await turn()
    expect([told, made.troubles]).toEqual([[], 1])
    tick(200)
    const isOver = ['a', 'b'].map((id) => heartbeat.isOver({ id, token: '1', leaseMs: 300 }))
    expect([told, isOver]).toEqual([['b lapsed'], [false, true]])
    heartbeat.stop()
  })

  it('beats once for all leases of a length, and tells those who lost theirs', async () => {
    const { heartbeat, tick, beats } = make()
    const lost: string[] = []
    for (const id of ['a', 'b']) heartbeat.hold({ id, token: '1', leaseMs: 300, onLost: () => lost.push(id) })
    heartbeat.hold({ id: 'c', token: '1', leaseMs: 900, onLost: () => lost.push('c') })
    tick()
    expect(beats.map(({ ids }) => ids)).toEqual([['a', 'b'], ['c']])
    beats[0]!.answer(['b'])
    beats[1]!.answer(['c'])
    await turn()
    expect(lost).toEqual(['a'])
    tick()
    expect(beats.slice(2).map(({ ids }) => ids)).toEqual([['b'], ['c']])
    heartbeat.stop()
  })

  it('does not let go while a beat is under way', async () => {
    const { heartbeat, tick, beats } = make()
    const letGo = heartbeat.hold({ id: 'a', token: '1', leaseMs: 300, onLost: () => {} })
    tick()
    let gone = false
    const going = letGo().then(() => (gone = true))
    await turn()
    expect(gone).toBe(false)
    beats[0]!.answer(['a'])
    await going
    tick()
    expect(beats).toHaveLength(1)
  })

  it('a stop of the former holder does not stop the next one', async () => {
    const { heartbeat, tick, beats } = make()
    const stopFormer = heartbeat.hold({ id: 'a', token: '1', leaseMs: 300, onLost: () => {} })
    heartbeat.hold({ id: 'a', token: '2', leaseMs: 300, onLost: () => {} })
    await stopFormer()
    tick()
    expect(beats.map(({ ids }) => ids)).toEqual([['a']])
    heartbeat.stop()
  })

  it('a second stop does not stop who holds a lease of the same length since', async () => {
    const { heartbeat, tick, beats } = make()
    const stopFormer = heartbeat.hold({ id: 'a', token: '1', leaseMs: 300, onLost: () => {} })
    await stopFormer()
    heartbeat.hold({ id: 'b', token: '1', leaseMs: 300, onLost: () => {} })
    await stopFormer()
    for (let beat = 0; beat < 2; beat++) {
      tick()
      beats[beat]?.answer(['b'])
      await turn()
    }
    expect(beats.map(({ ids }) => ids)).toEqual([['b'], ['b']])
    heartbeat.stop()
  })

  it('what a beat says of the former holder is not said of the next one', async () => {
    const { heartbeat, tick, beats } = make()
    const lost: string[] = []
    const stopFormer = heartbeat.hold({ id: 'a', token: '1', leaseMs: 300, onLost: () => lost.push('former') })
    tick()
    const stopping = stopFormer()
    heartbeat.hold({ id: 'a', token: '2', leaseMs: 300, onLost: () => lost.push('next') })
    beats[0]!.answer([])
    await stopping
    expect(lost).toEqual([])
    heartbeat.stop()
  })

  it('misses a beat without giving up', async () => {
    const made = make()
    let lost = false
    made.heartbeat.hold({ id: 'a', token: '1', leaseMs: 300, onLost: () => (lost = true) })
    made.tick()
    made.beats[0]!.fail()
    await turn()
    expect(made.troubles).toBe(1)
    expect(lost).toBe(false)
    made.tick()
    expect(made.beats).toHaveLength(2)
    made.heartbeat.stop()
  })

  it('tells of a lease that lapsed, also where every beat fails at once', async () => {
    const { heartbeat, tick, beats } = make()
    let isTold = false
    heartbeat.hold({ id: 'a', token: '1', leaseMs: 300, onLost: () => {}, onLapsed: () => (isTold = true) })
    const missed = async (): Promise<void> => {
      tick(100)
      beats.at(-1)?.fail()
      await turn()
    }
    for (let beat = 0; beat < 2; beat++) await missed()
    expect(isTold).toBe(false)
    for (let beat = 0; beat < 2; beat++) await missed()
    expect(isTold).toBe(true)
    heartbeat.stop()
  })

  it('tells those who still work when it stops', () => {
    const { heartbeat } = make()
    const told: string[] = []
    const letGo = heartbeat.hold({
      id: 'a',
      token: '1',
      leaseMs: 300,
      onLost: () => {},
      onLapsed: () => told.push('a'),
    })
    heartbeat.hold({ id: 'b', token: '1', leaseMs: 300, onLost: () => {}, onLapsed: () => told.push('b') })
    void letGo()
    heartbeat.stop()
    expect(told).toEqual(['b'])
    expect(heartbeat.isOver({ id: 'b', token: '1', leaseMs: 300 })).toBe(true)
  })
})
