import { expect, it } from 'vitest'
import { countCharges, insertCharge, later, outcomeOf } from '../support/charges.ts'
import { describeClient, describeClients } from '../support/stores.ts'

describeClients('duplicates of a running key', (place) => {
  // finding 3, first table
  it('are refused at once, exactly, and slow nobody: 50 of them on 10 connections', async () => {
    let go: () => void = () => {}
    let inside: () => void = () => {}
    const started = new Promise<void>((resolve) => (inside = resolve))
    const gate = new Promise<void>((resolve) => (go = resolve))
    const running = place.once().run({ scope: 'u', key: 'running', input: 1 }, async ({ tx }) => {
      const charged = await insertCharge(place, tx, 'running')
      inside()
      await gate
      return charged
    })
    await started
    // Every duplicate from an instance of its own: none of them can ask a table in this process.
    const timed = async (input: number, key = 'running'): Promise<{ outcome: string; tookMs: number }> => {
      const startedAt = performance.now()
      const outcome = await outcomeOf(
        place.once().run({ scope: 'u', key, input }, ({ tx }) => insertCharge(place, tx, key)),
      )
      return { outcome, tookMs: performance.now() - startedAt }
    }
    const all = [...Array.from({ length: 50 }, (_, i) => timed(i % 5 === 4 ? 2 : 1)), timed(1, 'unrelated')]
    const results = await Promise.all(all)
    const unrelated = results.pop()!
    for (const [i, { outcome }] of results.entries()) {
      // An honest retry is never told 422, which is for good. Another request may meet its own twin, and be told to wait.
      if (i % 5 === 4) expect(['ONCE_MISMATCH', 'ONCE_IN_FLIGHT']).toContain(outcome)
      else expect(outcome).toBe('ONCE_IN_FLIGHT')
    }
    expect((await timed(2)).outcome).toBe('ONCE_MISMATCH')
    expect(unrelated.outcome).toBe('value')
    // The holder is still running: whoever waited for it would not be here.
    expect(await countCharges(place, 'running')).toBe(0)
    go()
    const charged = await running
    expect(await place.once().run({ scope: 'u', key: 'running', input: 1 }, async () => 'ran twice')).toEqual(charged)
    expect(await countCharges(place, 'running')).toBe(1)
  })

  it('are not refused because another request under the key waits in the same process', async () => {
    let go: () => void = () => {}
    const gate = new Promise<void>((resolve) => (go = resolve))
    const elsewhere = place.once()
    const here = place.once({ inFlight: { waitFor: '5s' } })
    const charge = here.batched({
      statement: (key: string) => ({
        sql: 'insert into charges (id, key, amount) values (999999, $1, 1)',
        values: [key],
      }),
      respond: () => 'charged',
    })
    const ask = { scope: 'u', key: 'waited for' }
    const running = elsewhere.run({ ...ask, input: 'right' }, async ({ tx }) => {
      await insertCharge(place, tx, 'waited for')
      await gate
      return 'done'
    })
    await later(100)
    const wrong = outcomeOf(charge({ ...ask, input: 'wrong' }))
    await later(300)
    const retry = here
      .run({ ...ask, input: 'right' }, async () => 'ran twice')
      .catch((error: { code: string }) => error.code)
    await later(300)
    go()
    expect(await running).toBe('done')
    expect(await retry).toBe('done')
    expect(await wrong).toBe('ONCE_MISMATCH')
    expect(await countCharges(place, 'waited for')).toBe(1)
  })
})

describeClient('callers racing for keys', 'pg', (place) => {
  // finding 3, second experiment
  it(
    '500 keys, 48 callers each: no wrong 422, no 409 for a key that was committed before the call',
    { timeout: 120_000 },
    async () => {
      const instances = Array.from({ length: 12 }, () => place.once())
      const wrong: string[] = []
      let replays = 0
      for (let batch = 0; batch < 10; batch++) {
        const committed = new Set<string>()
        const calls = Array.from({ length: 50 * 48 }, async (_, i) => {
          const key = `race ${batch} ${i % 50}`
          const wasCommitted = committed.has(key)
          const outcome = await outcomeOf(
            instances[i % 12]!.run({ scope: 'u', key, input: key }, ({ tx }) => insertCharge(place, tx, key)).then(
              (value) => {
                committed.add(key)
                replays++
                return value
              },
            ),
          )
          if (outcome === 'ONCE_MISMATCH' || (outcome !== 'value' && wasCommitted)) wrong.push(`${key}: ${outcome}`)
          if (outcome !== 'value' && outcome !== 'ONCE_IN_FLIGHT') wrong.push(`${key}: ${outcome}`)
          // once more, now that somebody has committed it or is about to
          if (committed.has(key)) {
            const again = await outcomeOf(place.once().run({ scope: 'u', key, input: key }, async () => 'ran twice'))
            if (again !== 'value') wrong.push(`${key} again: ${again}`)
          }
        })
        await Promise.all(calls)
      }
      expect(wrong).toEqual([])
      expect(replays).toBeGreaterThan(500)
      const [row] = await place.bed.admin(
        `select count(*)::int as rows, count(distinct key)::int as keys from charges where key like 'race %'`,
      )
      expect(row).toEqual({ rows: 500, keys: 500 })
    },
  )
})
