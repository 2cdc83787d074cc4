import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import type { AuthInfo } from '@modelcontextprotocol/sdk/server/auth/types.js'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { once as onceEvent } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { describe, expect, inject, it } from 'vitest'
import { idempotentTool, toolKey } from '../../src/entry/mcp.ts'
import { redisStore } from '../../src/entry/redis-store.ts'
import { effectivelyOnce } from '../../src/index.ts'
import { openRedis } from '../support/redis-clients.ts'
import { describeEmbedded } from '../support/stores.ts'
import { CHARGE, connected, CONVERSATION, KEY, mark, refused, textOf } from './tool-works.ts'

describeEmbedded(
  'a tool over HTTP',
  (place) => {
    it('keeps the users apart, and finds the first result from a new session', async () => {
      const once = place.once()
      let runs = 0
      const http = createServer((req, res) => void serve(req as IncomingMessage & { auth?: AuthInfo }, res))
      const serve = async (req: IncomingMessage & { auth?: AuthInfo }, res: ServerResponse) => {
        const clientId = req.headers.authorization ?? ''
        req.auth = { token: 't', clientId, scopes: [] }
        // One server for each request: no session survives.
        const server = new McpServer({ name: 'shop', version: '1.0.0' })
        server.registerTool(
          'charge',
          CHARGE,
          idempotentTool(
            once,
            { name: 'charge', scope: ({ extra }) => extra.authInfo?.clientId ?? '', key: toolKey },
            async () => ({ content: [{ type: 'text', text: `run ${++runs}` }] }),
          ),
        )
        const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })
        await server.connect(transport)
        await transport.handleRequest(req, res)
      }
      http.listen(0, '127.0.0.1')
      await onceEvent(http, 'listening')
      const url = new URL(`http://127.0.0.1:${(http.address() as AddressInfo).port}/mcp`)
      const call = async (user: string): Promise<CallToolResult> => {
        const client = new Client({ name: 'agent', version: '1.0.0' })
        const transport = new StreamableHTTPClientTransport(url, { requestInit: { headers: { authorization: user } } })
        await client.connect(transport)
        const _meta = { [CONVERSATION]: 'c' }
        const result = await client.callTool({ name: 'charge', arguments: { order: 1, amount: 2 }, _meta })
        await client.close()
        return result as CallToolResult
      }
      try {
        expect(textOf(await call('ann'))).toBe('run 1')
        const replay = await call('ann')
        expect([textOf(replay), mark(replay)]).toEqual(['run 1', true])
        expect(textOf(await call('bob'))).toBe('run 2')
      } finally {
        http.closeAllConnections()
        http.close()
      }
    })
  },
  'SQLite',
)

const redis = inject('servers').redis
describe.skipIf('missing' in redis)('a tool on a store without transactions', () => {
  it('runs under a lease, and is refused without one', async () => {
    const { client, close } = await openRedis('ioredis', 'redis', 'url' in redis ? redis.url : '')
    const once = effectivelyOnce({ namespace: `mcp-${process.pid}`, store: redisStore(client), sweep: false })
    let runs = 0
    const options = { scope: 'global', key: toolKey, onError: () => {} } as const
    const tools = await connected((server) => {
      server.registerTool(
        'charge',
        CHARGE,
        idempotentTool(once, { ...options, name: 'charge', lease: '5s' }, async (_args, _extra, { step, commit }) => {
          const run = await step('pay', async () => ++runs)
          return commit(() => ({ content: [{ type: 'text', text: `run ${run}` }] }))
        }),
      )
      server.registerTool(
        'atomic',
        CHARGE,
        idempotentTool(once, { ...options, name: 'atomic' }, async () => ({ content: [] })),
      )
    })
    const again = (): Promise<CallToolResult> => tools.call('charge', { order: 1, amount: 2 }, { [KEY]: 'k' })
    expect(textOf(await again())).toBe('run 1')
    const replay = await again()
    expect([textOf(replay), mark(replay), runs]).toEqual(['run 1', true, 1])
    expect(refused(await tools.call('atomic', { order: 1, amount: 2 }, { [KEY]: 'a' }))).toBe('ONCE_UNSUPPORTED')
    await tools.close()
    await once.close()
    await close()
  })
})
