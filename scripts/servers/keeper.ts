/**
 * Runs one server as its child, and ends it when the process that asked for it is gone.
 *
 * The asking process holds the other end of this process's standard input. When that end closes for any reason, SIGKILL
 * included, the keeper stops the server and removes its directory. So the dying process needs no cleanup code. The
 * lines `halt`, with or without a signal, and `resume` end the server and restart it on its data.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { closeSync, openSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KeeperOrder } from './keep.ts'

const GRACE_MS = 10_000

const order = JSON.parse(process.argv[2] ?? '') as KeeperOrder

writeFileSync(join(order.directory, 'keeper.pid'), String(process.pid))
let ending = false
let halted = false
let server = startServer()

function startServer(): ChildProcess {
  const log = openSync(order.logFile, 'a')
  const child = spawn(order.command, order.args, {
    stdio: ['ignore', log, log],
    cwd: order.directory,
    env: { ...process.env, ...order.env },
    ...(order.uid === undefined ? {} : { uid: order.uid }),
    ...(order.gid === undefined ? {} : { gid: order.gid }),
  })
  closeSync(log)
  writeFileSync(join(order.directory, 'server.pid'), String(child.pid ?? 0))
  child.on('error', () => leave(1))
  child.on('exit', (code) => {
    if (ending || !halted) leave(ending ? 0 : (code ?? 1))
  })
  return child
}

function endServer(): void {
  if (ending) return
  ending = true
  if (hasEnded()) leave(0)
  stopServer()
}

function stopServer(signal: NodeJS.Signals = order.stopSignal): void {
  const child = server
  child.kill(signal)
  setTimeout(() => child.kill('SIGKILL'), GRACE_MS).unref()
}

function hasEnded(): boolean {
  return server.exitCode !== null || server.signalCode !== null
}

function obey(line: string): void {
  if (ending) return
  const [command, signal] = line.trim().split(' ')
  if (command === 'halt' && !halted) {
    halted = true
    stopServer(signal as NodeJS.Signals | undefined)
  }
  if (command === 'resume' && halted && hasEnded()) {
    halted = false
    server = startServer()
  }
}

function leave(code: number): void {
  // A server that ended by itself keeps its log until the asking process has read it.
  if (ending) rmSync(order.directory, { recursive: true, force: true, maxRetries: 5 })
  process.exit(code)
}

process.stdin.on('end', endServer)
process.stdin.on('close', endServer)
process.stdin.on('error', endServer)
process.stdin.setEncoding('utf8').on('data', (text) => {
  for (const command of String(text).trim().split('\n')) obey(command)
})
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, endServer)
