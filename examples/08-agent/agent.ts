/**
 * An agent with a journal: `agent.ts <folder> <provider>`. A script takes the place of the model. The journal holds the
 * conversation and every answered step. A process that is started again repeats the step that has no answer, under the
 * same conversation and step, so the tool server finds the first attempt.
 */
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import type { CallToolResult } from '@modelcontextprotocol/sdk/types.js'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Journal } from './journal.ts'

const [folder = '.', provider = ''] = process.argv.slice(2)
const PLAN = [{ name: 'charge', arguments: { order: 'order-1', cents: 500 } }]
const TRIES_MAX = 100
/** For the tests: what is killed in each try, until the list is empty. */
const crashes = (process.env['CRASHES'] ?? '').split(',')

const journal = new Journal(join(folder, 'journal.ndjson'))
// Recorded before the first call: a conversation that is made anew after a crash would charge again.
const conversation = journal.conversation ?? journal.begin(randomUUID())

for (const [step, call] of PLAN.entries()) {
  if (journal.answers.has(step)) continue
  const { result, crash } = await answered(step, call)
  if (crash === 'agent') {
    process.kill(process.pid, 'SIGKILL')
    for (;;); // not one statement further
  }
  journal.answer(step, textOf(result))
}
console.log(JSON.stringify([...journal.answers.values()]))
process.exit(0)

/** Calls the tool until there is an answer. Each try starts a tool server, because the last one may be dead. */
async function answered(
  step: number,
  call: (typeof PLAN)[number],
): Promise<{ result: CallToolResult; crash: string | undefined }> {
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    const crash = crashes.shift()
    const client = new Client({ name: 'agent', version: '1.0.0' })
    try {
      await client.connect(toolServer(crash))
      const _meta = { 'effectively-once/conversation': conversation, 'effectively-once/step': step }
      const result = (await client.callTool({ ...call, _meta })) as CallToolResult
      if (result._meta?.['effectively-once/refused'] === undefined) return { result, crash }
    } catch (error) {
      journal.failed(step, String(error))
    } finally {
      await client.close()
    }
  }
  throw new Error(`no answer after ${TRIES_MAX} tries`)
}

function toolServer(crash: string | undefined): StdioClientTransport {
  const program = import.meta.url.endsWith('.js') ? './tools.js' : './tools.ts'
  const file = fileURLToPath(new URL(program, import.meta.url))
  return new StdioClientTransport({
    command: process.execPath,
    args: [...process.execArgv, file, join(folder, 'agent.db'), provider, 'user-1'],
    env: { NODE_NO_WARNINGS: '1', ...(crash && crash !== 'agent' && { CRASH_AT: crash }) },
  })
}

function textOf({ content }: CallToolResult): string {
  return content.map((part) => (part.type === 'text' ? part.text : '')).join('')
}
