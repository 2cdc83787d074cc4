import { spawn } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { findNode } from '../../scripts/servers/runtimes.ts'

export const NODE_VERSIONS = ['20', '22', '24'] as const
export type NodeVersion = (typeof NODE_VERSIONS)[number]
const NUMBERS = { 20: 20, 22: 22, 24: 24 } as const

/** Runs this very program again under another version of Node, from npm's packages. The exit code is the program's. */
export async function runUnder(version: NodeVersion): Promise<number> {
  const node = await findNode(NUMBERS[version])
  if ('missing' in node) throw new Error(`no Node ${version}: ${node.missing}`)
  const child = spawn(node.executable, [...process.execArgv, ...process.argv.slice(1)], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  const [code] = (await onceEvent(child, 'exit')) as [number | null]
  return code ?? 1
}

export function isRunning(version: NodeVersion): boolean {
  return process.versions.node.split('.')[0] === version
}
