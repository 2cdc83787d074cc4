import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'

const SCRIPT = fileURLToPath(new URL('./relay-process.ts', import.meta.url))

/** Starts a relay in a process of its own, which writes what it sends to `file`. Resolves when the relay runs. */
export async function startRelayChild(
  children: Set<ChildProcess>,
  { url, file, more = [] }: { readonly url: string; readonly file: string; readonly more?: readonly string[] },
): Promise<ChildProcess> {
  const child = spawn(process.execPath, ['--import', 'tsx', SCRIPT, url, file, '1s', ...more], {
    stdio: ['ignore', 'pipe', 'inherit'],
    env: { ...process.env, NODE_ENV: 'production' },
  })
  children.add(child)
  child.on('exit', () => children.delete(child))
  await Promise.race([once(child.stdout, 'data'), once(child, 'exit')])
  return child
}
