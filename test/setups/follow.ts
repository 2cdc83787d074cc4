import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { expect } from 'vitest'

const COMMANDS_MS = 600_000
const OWN_TERMINAL = '# in a separate terminal\n'

export interface Reader {
  /** The empty folder in which the reader works. */
  readonly folder: string
  /** Takes the place of the name of the package in `npm i`. */
  readonly tarball: string
  /** The Node that runs the commands. Default: the one of the tests */
  readonly node?: string
}

/** Texts of a page or a section, and what is done with them: saved, run, or compared. */
interface Block {
  readonly language: string
  readonly code: string
}

export function sectionOf(page: string, heading: string): string {
  const found = page
    .split(/^## /m)
    .find((section) => section.startsWith(`${heading}\n`) || section.includes(`>${heading}\n`))
  if (found === undefined) throw new Error(`the page has no section "${heading}"`)
  return found
}

/**
 * Does what a text says: saves each block that begins with the name of a file, runs the commands, and compares their
 * output with the block after them. Returns how many files, commands and outputs there were.
 */
export async function follow(text: string, reader: Reader): Promise<{ files: number; runs: number; outputs: number }> {
  const env = await environmentOf(reader)
  const did = { files: 0, runs: 0, outputs: 0 }
  let terminal: ChildProcess | undefined
  let output = ''
  try {
    for (const { language, code } of blocksOf(text)) {
      const [, file] = /^\/\/ ([\w./-]+\.\w+)\n/.exec(code) ?? []
      if (file !== undefined) {
        await mkdir(dirname(join(reader.folder, file)), { recursive: true })
        await writeFile(join(reader.folder, file), code)
        did.files++
      } else if (language === 'sh' && code.startsWith(OWN_TERMINAL)) {
        await end(terminal)
        terminal = spawn('bash', ['-c', code], { cwd: reader.folder, env, detached: true, stdio: ['ignore', 2, 2] })
        did.runs++
      } else if (language === 'sh') {
        output = await runAll(code.replaceAll(/^(npm i .*?)effectively-once\b/gm, `$1${reader.tarball}`), reader, env)
        did.runs++
      } else if (language === 'text') {
        expect(output).toBe(code)
        did.outputs++
      }
    }
    return did
  } finally {
    await end(terminal)
  }
}

function blocksOf(markdown: string): Block[] {
  return [...markdown.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = '', code = '']) => ({
    language,
    code,
  }))
}

async function runAll(commands: string, { folder }: Reader, env: NodeJS.ProcessEnv): Promise<string> {
  try {
    const options = { cwd: folder, env, timeout: COMMANDS_MS, killSignal: 'SIGKILL' } as const
    return (await promisify(execFile)('bash', ['-e', '-c', commands], options)).stdout
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string }
    throw new Error(`${commands}\n${stdout}\n${stderr}`, { cause: error })
  }
}

/** Ctrl-C: the whole group ends, because npx starts a process of its own. */
async function end(child: ChildProcess | undefined): Promise<void> {
  if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
  const exited = once(child, 'exit')
  process.kill(-child.pid, 'SIGTERM')
  const late = setTimeout(() => child.pid !== undefined && process.kill(-child.pid, 'SIGKILL'), 10_000)
  await exited
  clearTimeout(late)
}

async function environmentOf({ node = process.execPath }: Reader): Promise<NodeJS.ProcessEnv> {
  const server = createServer().listen(0)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  const { NODE_OPTIONS: _, VITEST: __, NODE_ENV: ___, JEST_WORKER_ID: ____, ...env } = process.env
  const path = `${dirname(node)}${delimiter}${env['PATH'] ?? ''}`
  return {
    ...env,
    PATH: path,
    PORT: String(port),
    NO_COLOR: '1',
    NODE_NO_WARNINGS: '1',
    npm_config_update_notifier: 'false',
    npm_config_audit: 'false',
    npm_config_fund: 'false',
    npm_config_prefer_offline: 'true',
  }
}
