import { describe, expect, it } from 'vitest'
import { PAY, scripted, VirtualTime } from '../../test/client/support/scripted.ts'

const unreplayable = expect.objectContaining({ name: 'OnceError', code: 'ONCE_BODY_UNREPLAYABLE' }) as unknown
/** Real time that passes without virtual time. */
const SLOW_MS = 2_000
/** What a stream that never ends would let a test wait. */
const HUNG_MS = 3_000

type Controller = ReadableStreamDefaultController<unknown>

function streamed(source: { start?: (to: Controller) => void; pull?: (to: Controller) => unknown }): Request {
  const init = { method: 'POST', body: new ReadableStream(source as object), duplex: 'half' }
  return new Request(PAY, init as RequestInit)
}

/** How the call ended, or `'hung'`. */
function ended(call: Promise<unknown>): Promise<unknown> {
  const hung = new Promise((resolve) => setTimeout(() => resolve('hung'), HUNG_MS))
  return Promise.race([call.catch((error: unknown) => error), hung])
}

describe('a Request whose body is a stream', () => {
  it('is sent if the body ends, and stays readable for its caller', async () => {
    const parts = ['{"amount"', ':5}'].map((part) => new TextEncoder().encode(part))
    const request = streamed({
      pull(to) {
        const part = parts.shift()
        if (part) to.enqueue(part)
        else to.close()
      },
    })
    const { client, sent } = scripted([])
    expect((await client.fetch(request)).status).toBe(201)
    expect([sent[0]?.body, await request.text()]).toEqual(['{"amount":5}', '{"amount":5}'])
  })

  it('is read no further than the limit', async () => {
    let bytes = 0
    const request = streamed({
      async pull(to) {
        await new Promise((resolve) => setImmediate(resolve))
        if (bytes > 8 * 2 ** 20) return
        bytes += 2 ** 16
        to.enqueue(new Uint8Array(2 ** 16))
      },
    })
    const { client, sent } = scripted([], {}, new VirtualTime(SLOW_MS))
    expect(await ended(client.fetch(request))).toEqual(unreplayable)
    expect(bytes).toBeLessThan(2 * 2 ** 20)
    expect([sent, await client.pending()]).toEqual([[], []])
  })

  it('that never ends is given up at the deadline', async () => {
    const { client, sent } = scripted([])
    expect(await ended(client.fetch(streamed({}), {}, { deadline: '1s' }))).toEqual(unreplayable)
    expect([sent, await client.pending()]).toEqual([[], []])
  })

  it('that never ends is given up with the signal, whose reason is thrown', async () => {
    const giving = new AbortController()
    const { client, sent } = scripted([], {}, new VirtualTime(10 * SLOW_MS))
    setTimeout(() => giving.abort(new Error('left the page')), 20)
    expect(await ended(client.fetch(streamed({}), {}, { signal: giving.signal }))).toEqual(new Error('left the page'))
    expect(sent).toEqual([])
  })

  it.each([
    ['fails', (to: Controller) => to.error(new Error('disk'))],
    ['has other numbers', (to: Controller) => to.enqueue(new Uint16Array(5))],
    ['has no bytes', (to: Controller) => to.enqueue({ amount: 5 })],
  ])('that %s leaves no rejection that nobody handles', async (_, start) => {
    const unhandled: unknown[] = []
    const note = (reason: unknown): void => void unhandled.push(reason)
    process.on('unhandledRejection', note)
    const { client, sent } = scripted([])
    expect(await ended(client.fetch(streamed({ start })))).toEqual(unreplayable)
    await new Promise((resolve) => setTimeout(resolve, 20))
    process.off('unhandledRejection', note)
    expect([unhandled, sent]).toEqual([[], []])
  })
})
