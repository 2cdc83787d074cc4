/**
 * Runs one server as its child and ends it when the process that asked for it is gone.
 *
 * The asking process holds the other end of this process's standard input. When that end closes, for whatever reason,
 * SIGKILL included, the server is stopped and its directory removed. Nothing has to run in the dying process.
 */
import { spawn } from 'node:child_process'
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KeeperOrder } from './keep.ts'

const GRACE_MS = 10_000

const order = JSON.parse(process.argv[2] ?? '') as KeeperOrder

writeFileSync(join(order.directory, 'keeper.pid'), String(process.pid))
const log = openSync(order.logFile, 'a')
const server = spawn(order.command, order.args, {
  stdio: ['ignore', log, log],
  cwd: order.directory,
  env: { ...process.env, ...order.env },
  ...(order.uid === undefined ? {} : { uid: order.uid }),
  ...(order.gid === undefined ? {} : { gid: order.gid }),
})
closeSync(log)

let ending = false

function endServer(): void {
  if (ending) return
  ending = true
  server.kill(order.stopSignal)
  setTimeout(() => server.kill('SIGKILL'), GRACE_MS).unref()
}

function leave(code: number): void {
  // A server that ended by itself keeps its log until the asking process has read it.
  if (ending) rmSync(order.directory, { recursive: true, force: true, maxRetries: 5 })
  process.exit(code)
}

server.on('error', () => leave(1))
server.on('exit', (code) => leave(ending ? 0 : (code ?? 1)))

process.stdin.on('end', endServer)
process.stdin.on('close', endServer)
process.stdin.on('error', endServer)
process.stdin.resume()
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, endServer)
