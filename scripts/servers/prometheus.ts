import { chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { debianBinary, unprivileged } from './debian.ts'
import type { RunningServer } from './recipe.ts'
import { startKept } from './start-kept.ts'

const READY_MS = 60_000

/** The program that checks and tests rules. It comes with the server's package. */
export function promtool(): Promise<string> {
  return debianBinary('promtool', 'prometheus')
}

/** A Prometheus that scrapes this address every two seconds. */
export async function startPrometheus(target: string, job: string): Promise<RunningServer> {
  const command = await debianBinary('prometheus', 'prometheus')
  const owner = await unprivileged()
  return startKept({
    owner,
    readyMs: READY_MS,
    async prepare({ port, directory }) {
      const data = join(directory, 'data')
      await mkdir(data, { mode: 0o700 })
      if (owner.uid !== undefined && owner.gid !== undefined) await chown(data, owner.uid, owner.gid)
      const file = join(directory, 'prometheus.yml')
      const scrape = { job_name: job, scrape_interval: '2s', static_configs: [{ targets: [target] }] }
      // JSON is YAML.
      await writeFile(file, JSON.stringify({ scrape_configs: [scrape] }), { mode: 0o644 })
      const flags = {
        'config.file': file,
        'storage.tsdb.path': data,
        'web.listen-address': `127.0.0.1:${port}`,
      }
      const args = Object.entries(flags).map(([flag, value]) => `--${flag}=${value}`)
      return { command, args, url: `http://127.0.0.1:${port}` }
    },
    async answers(url) {
      const { status } = await fetch(`${url}/-/ready`)
      if (status !== 200) throw new Error(`Prometheus answered ${status}`)
    },
  })
}
