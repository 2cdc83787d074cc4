import { expect, it, vi } from 'vitest'
import { z } from 'zod'
import { connected, KEY, mark, refused, textOf, toolWorks } from '../../test/mcp/tool-works.ts'
import { describeEmbedded } from '../../test/support/stores.ts'
import { idempotentTool } from './tool.ts'
import { toolKey } from './key.ts'

describeEmbedded(
  'a tool',
  (place) => {
    toolWorks(place)

    it('replays structured content, which the SDK checks against the output schema', async () => {
      const once = place.once()
      const { call, close } = await connected((server) => {
        server.registerTool(
          'quote',
          { inputSchema: { order: z.string() }, outputSchema: { price: z.number() } },
          idempotentTool(once, { name: 'quote', scope: 'global', key: toolKey }, async () => ({
            content: [{ type: 'text', text: '12' }],
            structuredContent: { price: 12 },
          })),
        )
      })
      const again = () => call('quote', { order: 'o' }, { [KEY]: 'quote-1' })
      expect((await again()).structuredContent).toEqual({ price: 12 })
      const replay = await again()
      expect([replay.structuredContent, mark(replay)]).toEqual([{ price: 12 }, true])
      // A refusal has no structured content. With isError, neither side of the SDK asks for it.
      expect(refused(await call('quote', { order: 'other' }, { [KEY]: 'quote-1' }))).toBe('ONCE_MISMATCH')
      await close()
    })

    it('refuses a gone key and an unknown outcome, and tells the model to ask a human', async () => {
      const once = place.once({ replayFor: '1s' })
      const { call, close } = await connected((server) => {
        server.registerTool(
          'short',
          { inputSchema: {} },
          idempotentTool(once, { name: 'short', scope: 'global', key: toolKey }, async () => ({ content: [] })),
        )
        server.registerTool(
          'unsure',
          { inputSchema: {} },
          idempotentTool(once, { name: 'unsure', scope: 'global', key: toolKey, lease: '1s' }, async (_a, _e, op) => {
            const unsure = { keyed: false, reconcile: async () => 'stop' as const }
            await op.step('pay', () => Promise.reject(new Error('connection lost')), unsure)
            return op.commit(() => ({ content: [] }))
          }),
        )
      })
      await call('short', {}, { [KEY]: 'short' })
      const unsure = () => call('unsure', {}, { [KEY]: 'unsure' })
      await unsure()
      const unknown = await unsure()
      expect(refused(unknown)).toBe('ONCE_OUTCOME_UNKNOWN')
      expect(textOf(unknown)).toContain('Ask a human to settle it.')
      await vi.waitFor(
        async () => expect(refused(await call('short', {}, { [KEY]: 'short' }))).toBe('ONCE_GONE'),
        5_000,
      )
      await close()
    })

    it('takes ignore relative to the arguments, and keeps the errors of a server to its operator', async () => {
      const once = place.once()
      const errors: string[] = []
      let scope = 'user-1'
      const { call, close } = await connected((server) => {
        server.registerTool(
          'note',
          { inputSchema: { order: z.string(), memo: z.string() } },
          idempotentTool(
            once,
            {
              name: 'note',
              scope: () => scope,
              key: (called) => toolKey(called, { conversation: 'c', args: called.args.order }),
              ignore: ['/memo'],
              onError: ({ code }, { tool }) => errors.push(`${tool} ${code}`),
            },
            async ({ memo }) => ({ content: [{ type: 'text', text: memo }] }),
          ),
        )
        server.registerTool(
          'wrong',
          { inputSchema: {} },
          idempotentTool(once, { name: 'wrong', scope: 'global', key: () => 'w', onError: () => {} }, async () =>
            Promise.resolve({ text: 'no content' } as never),
          ),
        )
      })
      expect(textOf(await call('note', { order: 'o', memo: 'a' }))).toBe('a')
      expect(textOf(await call('note', { order: 'o', memo: 'b' }))).toBe('a')
      scope = ''
      const empty = await call('note', { order: 'o', memo: 'a' })
      expect([refused(empty), errors]).toEqual(['ONCE_SCOPE_EMPTY', ['note ONCE_SCOPE_EMPTY']])
      expect(refused(await call('wrong', {}))).toBe('ONCE_ANSWER_INVALID')
      scope = 'user-2'
      expect(textOf(await call('note', { order: 'o', memo: 'c' }))).toBe('c')
      await close()
    })

    it('refuses options that cannot work', () => {
      const once = place.once()
      const made = (options: object, handler: unknown = async () => ({ content: [] })) =>
        idempotentTool(once, { name: 't', scope: 'global', key: toolKey, ...options } as never, handler as never)
      expect(() => made({ scope: undefined })).toThrow('scope must be a function of the call')
      expect(() => made({ key: 'k' })).toThrow('key must be a function of the call')
      expect(() => made({ name: '' })).toThrow('needs the name of its tool')
      expect(() => made({ input: 1 })).toThrow("unknown option 'input'")
      expect(() => made({}, 'no function')).toThrow('needs a handler')
      expect(() => idempotentTool({} as never, {} as never, (() => {}) as never)).toThrow('effectivelyOnce()')
    })

    it('says when a closed instance serves it, and leaves the errors of the handler to the SDK', async () => {
      const once = place.once()
      const { call, close } = await connected((server) => {
        server.registerTool(
          'broken',
          { inputSchema: {} },
          idempotentTool(once, { name: 'broken', scope: 'global', key: toolKey }, () =>
            Promise.reject(new Error('oh')),
          ),
        )
      })
      expect(await call('broken', {}, { [KEY]: 'b' })).toEqual({
        content: [{ type: 'text', text: 'oh' }],
        isError: true,
      })
      await once.close()
      const closed = await call('broken', {}, { [KEY]: 'b' })
      expect(refused(closed)).toBe('ONCE_CLOSED')
      expect(textOf(closed)).toContain('A repeated call is safe.')
      await close()
    })
  },
  'SQLite',
)
