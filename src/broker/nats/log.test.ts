import { expect, it } from 'vitest'
import { natsTurn, type NatsLogClient } from './log.ts'

/** A server that publishes for one turn. `lost`: how an answer is lost on its way back. */
function server() {
  const state = { adds: 0, maxAge: 0, seq: 0, member: '', lost: undefined as { code: number } | undefined }
  const streams = {
    async add({ max_age: maxAge }: { max_age: number }) {
      state.adds++
      state.maxAge = maxAge
    },
    getMessage: async (_stream: string, query: { last_by_subj?: string }) =>
      query.last_by_subj === 'turn' ? { seq: state.seq, data: new TextEncoder().encode(state.member) } : null,
  }
  const publish = async (_subject: string, member: string) => {
    state.seq++
    state.member = member
    const { lost } = state
    state.lost = undefined
    if (lost) throw Object.assign(new Error('lost'), lost)
    return { seq: state.seq }
  }
  return { state, js: { publish, jetstreamManager: async () => ({ streams }) } as unknown as NatsLogClient }
}

it('the stream of a turn is made again only after a server that did not answer', async () => {
  const { state, js } = server()
  const turn = await natsTurn(js, { name: 'turn', keptMs: 1_000 })
  expect([await turn.hold(), await turn.hold(), state.adds]).toEqual([true, true, 1])
  expect(state.maxAge).toBe(1_000 * 1_000_000)
  state.lost = { code: 503 }
  await expect(turn.hold()).rejects.toThrow('lost')
  expect([await turn.hold(), state.adds]).toEqual([true, 2])
})

it('a turn is ours although the answer to the last message was lost', async () => {
  const { state, js } = server()
  const turn = await natsTurn(js, { name: 'turn', keptMs: 1_000 })
  state.lost = { code: 10_071 }
  expect(await turn.hold()).toBe(true)
})
