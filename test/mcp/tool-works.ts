import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { expect, it } from 'vitest'
import { z } from 'zod'
import { idempotentTool, toolKey } from '../../src/entry/mcp.ts'
import { final } from '../../src/index.ts'
import type { Place } from '../support/stores.ts'

export const CHARGE = { inputSchema: { order: z.number(), amount: z.number() } }
export const KEY = 'effectively-once/key'
export const CONVERSATION = 'effectively-once/conversation'
export const STEP = 'effectively-once/step'

/** A server with these tools, and a client connected to it. */
export async function connected(register: (server: McpServer) => void): Promise<{ call: Calling; close: Closing }> {
  const server = new McpServer({ name: 'shop', version: '1.0.0' })
  register(server)
  const [mine, theirs] = InMemoryTransport.createLinkedPair()
  const client = new Client({ name: 'agent', version: '1.0.0' })
  await Promise.all([server.connect(theirs), client.connect(mine)])
  const call: Calling = async (name, args, _meta = {}) =>
    (await client.callTool({ name, arguments: args, _meta })) as CallToolResult
  return { call, close: () => client.close() }
}

type Calling = (name: string, args: Record<string, unknown>, _meta?: Record<string, unknown>) => Promise<CallToolResult>
type Closing = () => Promise<void>

export function textOf({ content }: CallToolResult): string {
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('')
}

export function mark({ _meta }: CallToolResult): unknown {
  return _meta?.['effectively-once/replayed']
}

export function refused({ _meta, isError }: CallToolResult): unknown {
  expect(isError).toBe(true)
  return _meta?.['effectively-once/refused']
}

/** What holds on every store with transactions. */
export function toolWorks(place: Place): void {
  let order = 0
  const rows = async (id: number): Promise<number> =>
    (await place.bed.admin('select id from charges where id = $1', [id])).length
  const insert = (tx: unknown, id: number, amount: number): Promise<unknown> =>
    place.bed.raw(tx, 'insert into charges (id, key, amount) values ($1, $2, $3)', [id, 'k', amount])

  it('runs an atomic tool once, and marks the replay in _meta', async () => {
    const once = place.once()
    let runs = 0
    const { call, close } = await connected((server) => {
      server.registerTool(
        'charge',
        CHARGE,
        idempotentTool(once, { name: 'charge', scope: 'global', key: toolKey }, async (args, _extra, { tx }) => {
          runs += 1
          await insert(tx, args.order, args.amount)
          return { content: [{ type: 'text', text: `charged ${args.amount}` }], _meta: { own: 1 } }
        }),
      )
    })
    const id = ++order
    const meta = { [CONVERSATION]: `c-${id}`, [STEP]: 1 }
    const first = await call('charge', { order: id, amount: 5 }, meta)
    const second = await call('charge', { amount: 5, order: id }, meta)
    expect([textOf(first), mark(first)]).toEqual(['charged 5', undefined])
    expect(second).toEqual({ ...first, _meta: { own: 1, 'effectively-once/replayed': true } })
    expect([runs, await rows(id)]).toEqual([1, 1])
    await close()
  })

  it('resumes a leased tool after its step, and rolls back a result with isError', async () => {
    const once = place.once()
    let [asked, failing] = [0, true]
    const { call, close } = await connected((server) => {
      server.registerTool(
        'charge',
        CHARGE,
        idempotentTool(
          once,
          { name: 'charge', scope: () => 'user-1', key: toolKey, lease: '5s', label: ({ args }) => `o-${args.order}` },
          async (args, _extra, { step, commit }) => {
            const { id } = await step('pay', async () => ({ id: ++asked }))
            return commit(async ({ tx }) => {
              await insert(tx, args.order, args.amount)
              if (failing) return { content: [{ type: 'text', text: 'try again' }], isError: true }
              return { content: [{ type: 'text', text: `payment ${id}` }] }
            })
          },
        ),
      )
    })
    const id = ++order
    const args = { order: id, amount: 7 }
    const meta = { [KEY]: `order-${id}` }
    expect(await call('charge', args, meta)).toEqual({ content: [{ type: 'text', text: 'try again' }], isError: true })
    expect(await rows(id)).toBe(0)
    failing = false
    expect(textOf(await call('charge', args, meta))).toBe('payment 1')
    expect(mark(await call('charge', args, meta))).toBe(true)
    expect([asked, await rows(id)]).toEqual([1, 1])
    await close()
  })

  it('does not store an atomic result with isError, but stores a final refusal', async () => {
    const once = place.once()
    let runs = 0
    const { call, close } = await connected((server) => {
      server.registerTool(
        'charge',
        CHARGE,
        idempotentTool(once, { name: 'charge', scope: 'global', key: toolKey }, async (args, _extra, { tx }) => {
          runs += 1
          await insert(tx, args.order, args.amount)
          if (runs === 1) return { content: [{ type: 'text', text: 'busy' }], isError: true }
          throw final({ status: 402, body: 'The card was declined. Ask for another card.' })
        }),
      )
    })
    const id = ++order
    const again = (): Promise<CallToolResult> => call('charge', { order: id, amount: 5 }, { [KEY]: `declined-${id}` })
    expect(textOf(await again())).toBe('busy')
    const declined = await again()
    expect([textOf(declined), declined.isError]).toEqual(['The card was declined. Ask for another card.', true])
    expect(await again()).toEqual({ ...declined, _meta: { 'effectively-once/replayed': true } })
    expect([runs, await rows(id)]).toEqual([2, 0])
    await close()
  })

  it('refuses a call that runs, other arguments, another tool and a missing key, in words for the model', async () => {
    const once = place.once()
    let enter: () => void = () => {}
    let go: () => void = () => {}
    const entered = new Promise<void>((resolve) => (enter = resolve))
    const gone = new Promise<void>((resolve) => (go = resolve))
    const { call, close } = await connected((server) => {
      for (const name of ['charge', 'refund'])
        server.registerTool(
          name,
          CHARGE,
          // Leased: a store with one writer would make the second call wait for the first transaction.
          idempotentTool(once, { name, scope: 'global', key: toolKey, lease: '10s' }, async (args, _extra, op) => {
            enter()
            await gone
            return op.commit(() => ({ content: [{ type: 'text' as const, text: `done ${args.amount}` }] }))
          }),
        )
    })
    const id = ++order
    const meta = { [KEY]: `busy-${id}` }
    const running = call('charge', { order: id, amount: 5 }, meta)
    await entered
    const busy = await call('charge', { order: id, amount: 5 }, meta)
    expect(refused(busy)).toBe('ONCE_IN_FLIGHT')
    expect(textOf(busy)).toMatch(/Wait \d+ s, then call charge again with exactly the same arguments/)
    go()
    expect(textOf(await running)).toBe('done 5')
    expect(refused(await call('charge', { order: id, amount: 6 }, meta))).toBe('ONCE_MISMATCH')
    expect(refused(await call('refund', { order: id, amount: 5 }, meta))).toBe('ONCE_MISMATCH')
    expect(refused(await call('charge', { order: id, amount: 5 }))).toBe('ONCE_KEY_MISSING')
    expect(refused(await call('charge', { order: id, amount: 5 }, { [KEY]: 7 }))).toBe('ONCE_KEY_INVALID')
    await close()
  })
}
