import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'
import { LeanClient } from './http-client.ts'
import { newCharge, newKey } from './support/charge.ts'
import { CALLERS } from './support/database.ts'
import type { Scenario } from './support/measure.ts'

const KEYS = 2000

/** A protected and a bare Fastify server on one database, in a process of its own. */
export interface HttpBench {
  readonly client: LeanClient
  stop(): Promise<void>
}

export async function startHttp(url: string): Promise<HttpBench> {
  const child = spawn(process.execPath, ['--import', 'tsx', 'bench/http-server.ts', url], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  const port = await new Promise<number>((resolve, reject) => {
    createInterface(child.stdout).once('line', (line) => resolve(Number(line)))
    child.once('exit', (code) => reject(new Error(`the server ended with ${code}`)))
  })
  const client = new LeanClient(port)
  return {
    client,
    stop: () =>
      new Promise((resolve) => {
        client.close()
        child.once('exit', () => resolve())
        child.kill('SIGTERM')
      }),
  }
}

/** No protection: begin, charge, event, commit, each awaited, and the answer. */
export function bareHttp({ client }: HttpBench): Scenario {
  return scenario('bareHttp', () => send(client, '/bare', newKey(), JSON.stringify(newCharge())))
}

export function http({ client }: HttpBench): Scenario {
  return scenario('http', () => send(client, '/charges', newKey(), JSON.stringify(newCharge())))
}

export function httpBatched({ client }: HttpBench): Scenario {
  return scenario('httpBatched', () => send(client, '/batched', newKey(), JSON.stringify(newCharge())))
}

export async function httpReplayDatabase({ client }: HttpBench): Promise<Scenario> {
  const next = await completed(client, '/forgetful')
  return scenario('httpReplayDatabase', next)
}

export async function httpReplayCache({ client }: HttpBench): Promise<Scenario> {
  const next = await completed(client, '/charges')
  return scenario('httpReplayCache', next)
}

function scenario(name: string, operate: () => Promise<unknown>): Scenario {
  return { name, callers: CALLERS, operate }
}

async function completed(client: LeanClient, path: string): Promise<() => Promise<unknown>> {
  const known = Array.from({ length: KEYS }, () => [newKey(), JSON.stringify(newCharge())] as const)
  for (let i = 0; i < KEYS; i += CALLERS) {
    await Promise.all(known.slice(i, i + CALLERS).map(([key, body]) => send(client, path, key, body)))
  }
  let at = 0
  return () => {
    const [key, body] = known[at++ % KEYS] as readonly [string, string]
    return send(client, path, key, body)
  }
}

async function send(client: LeanClient, path: string, key: string, body: string): Promise<void> {
  const { status } = await client.post(path, key, body)
  if (status !== 201) throw new Error(`${path} answered ${status}`)
}
