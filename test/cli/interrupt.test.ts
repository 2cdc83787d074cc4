import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { compiled } from './run.ts'

const TIMEOUT_MS = 60_000
/** A database that accepts connections and never answers. */
const silent = createServer((socket) => void socket.on('error', () => {}))

beforeAll(async () => {
  await once(silent.listen(0, '127.0.0.1'), 'listening')
})
afterAll(() => void silent.close())

it.each(['migrate', 'status', 'doctor'])('the first SIGTERM ends %s', { timeout: TIMEOUT_MS }, async (command) => {
  const url = `postgres://ann@127.0.0.1:${(silent.address() as AddressInfo).port}/shop`
  const child = spawn(process.execPath, [join(compiled(), 'cli', 'main.js'), command, '--url', url])
  const ended = once(child, 'exit')
  await once(silent, 'connection')
  child.kill('SIGTERM')
  expect(await ended).toEqual([null, 'SIGTERM'])
})
