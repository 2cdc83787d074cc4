import { arch, platform } from 'node:os'
import { join } from 'node:path'
import { npmPackages } from './npm.ts'

export type RuntimeName = 'bun' | 'deno' | 'workerd'

/** A runtime on this machine, or the reason why there is none. It is not a server: the test starts and ends it. */
export type Runtime = { readonly executable: string } | { readonly missing: string }

interface Recipe {
  readonly version: string
  readonly file: string
  /** The package that contains the program, by `platform-arch`. */
  readonly packages: Readonly<Record<string, string>>
}

const RECIPES: Readonly<Record<RuntimeName, Recipe>> = {
  bun: {
    version: '1.4.4',
    file: 'bin/bun',
    packages: {
      'linux-x64': '@oven/bun-linux-x64',
      'linux-arm64': '@oven/bun-linux-aarch64',
      'darwin-x64': '@oven/bun-darwin-x64',
      'darwin-arm64': '@oven/bun-darwin-aarch64',
    },
  },
  deno: {
    version: '2.9.6',
    file: 'deno',
    packages: {
      'linux-x64': '@deno/linux-x64-glibc',
      'linux-arm64': '@deno/linux-arm64-glibc',
      'darwin-x64': '@deno/darwin-x64',
      'darwin-arm64': '@deno/darwin-arm64',
    },
  },
  workerd: {
    version: '1.20261104.1',
    file: 'bin/workerd',
    packages: {
      'linux-x64': '@cloudflare/workerd-linux-64',
      'linux-arm64': '@cloudflare/workerd-linux-arm64',
      'darwin-x64': '@cloudflare/workerd-darwin-64',
      'darwin-arm64': '@cloudflare/workerd-darwin-arm64',
    },
  },
}

/** Another version of Node, from the packages that hold its program. */
export async function findNode(major: 20 | 22 | 24): Promise<Runtime> {
  const holder = `node-${platform()}-${arch()}`
  const installed = await npmPackages(`node-${major}`, { [holder]: `^${major}` })
  return 'missing' in installed
    ? installed
    : { executable: join(installed.folder, 'node_modules', holder, 'bin', 'node') }
}

export async function findRuntime(name: RuntimeName): Promise<Runtime> {
  const { version, file, packages } = RECIPES[name]
  const holder = packages[`${platform()}-${arch()}`]
  if (!holder) return { missing: `${name} is not made for ${platform()} on ${arch()}` }
  const installed = await npmPackages(name, { [holder]: version })
  return 'missing' in installed ? installed : { executable: join(installed.folder, 'node_modules', holder, file) }
}
