/**
 * The tools of an agent, as an MCP server over stdio: `tools.ts <file> <provider> <user>`. The agent starts this
 * process, and repeats a call whose answer it did not get.
 */
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { effectivelyOnce } from 'effectively-once'
import { idempotentTool, toolKey } from 'effectively-once/mcp'
import { sqliteStore } from 'effectively-once/sqlite'
import { z } from 'zod'
import { crashPoint } from '../crash.ts'

const [file = 'agent.db', provider = '', user = 'user-1'] = process.argv.slice(2)

const store = sqliteStore({ file })
await store.transaction((tx) =>
  tx.query('create table if not exists charges (customer_order text, payment text, cents integer)'),
)
const once = effectivelyOnce({
  namespace: 'shop',
  store,
  // A repeated call waits for the attempt that still runs, or for the end of the lease of a dead attempt.
  inFlight: { waitFor: '30s' },
  observe: ({ kind }) => {
    if (kind === 'completed' || kind === 'replayed') crashPoint('after-commit')
  },
})
await once.migrate()

const server = new McpServer({ name: 'shop', version: '1.0.0' })
server.registerTool(
  'charge',
  {
    description: 'Charges the card of the customer for one order.',
    inputSchema: { order: z.string(), cents: z.number().int().positive() },
  },
  idempotentTool(
    once,
    // A server over stdio has one user, whom its parent names. A server over HTTP takes the user from extra.authInfo.
    { name: 'charge', scope: () => user, key: toolKey, lease: '2s', label: ({ args }) => args.order },
    async ({ order, cents }, _extra, { step, commit }) => {
      const { id } = await step('pay', async ({ key }) => {
        const headers = { 'idempotency-key': key }
        const response = await fetch(provider, { method: 'POST', body: JSON.stringify({ order, cents }), headers })
        if (!response.ok) throw new Error(`the provider answered ${response.status}`)
        const paid = (await response.json()) as { id: string }
        crashPoint('before-commit')
        return paid
      })
      return commit(async ({ tx }) => {
        await tx.query('insert into charges (customer_order, payment, cents) values ($1, $2, $3)', [order, id, cents])
        return { content: [{ type: 'text', text: `Charged ${cents} cents for ${order}: payment ${id}.` }] }
      })
    },
  ),
)

// The agent is gone: nobody reads the answers any more.
process.stdin.once('close', () => process.exit(0))
await server.connect(new StdioServerTransport())
