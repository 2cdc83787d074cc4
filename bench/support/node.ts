import { spawn } from 'node:child_process'
import { once as onceEvent } from 'node:events'
import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { npmPackages } from '../../scripts/servers/npm.ts'

export const NODE_VERSIONS = ['20', '22', '24'] as const
export type NodeVersion = (typeof NODE_VERSIONS)[number]

/** Runs this very program again under another version of Node, from npm's packages. The exit code is the program's. */
export async function runUnder(version: NodeVersion): Promise<number> {
  const name = `node-${platform()}-${arch()}`
  const installed = await npmPackages('node', { [name]: version })
  if ('missing' in installed) throw new Error(`no Node ${version}: ${installed.missing}`)
  const executable = join(installed.folder, 'node_modules', name, 'bin', 'node')
  const child = spawn(executable, [...process.execArgv, ...process.argv.slice(1)], { stdio: 'inherit' })
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => child.kill(signal))
  const [code] = (await onceEvent(child, 'exit')) as [number | null]
  return code ?? 1
}

export function isRunning(version: NodeVersion): boolean {
  return process.versions.node.split('.')[0] === version
}
