import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isRequired } from './index.ts'
import { messageOf, run } from './process.ts'

const NPM_MS = 300_000
const CACHE = fileURLToPath(new URL('../../node_modules/.cache/effectively-once', import.meta.url))

/** Packages in a folder of their own, or the reason why they are missing. */
export type Installed = { readonly folder: string } | { readonly missing: string }

/**
 * Packages that are too large for every installation, fetched once when a test asks for them. Their scripts do not run.
 * Throws if they are unavailable and `REQUIRE_SERVICES` requires them.
 */
export async function npmPackages(
  name: string,
  packages: Readonly<Record<string, string>>,
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Installed> {
  try {
    return { folder: await installed(name, packages) }
  } catch (error) {
    const missing = `npm: ${messageOf(error)}`
    if (isRequired(name, environment))
      throw new Error(`REQUIRE_SERVICES asks for ${name}. ${missing}`, { cause: error })
    return { missing }
  }
}

/** Another run may fetch the packages at the same time; the first result is kept. */
async function installed(name: string, packages: Readonly<Record<string, string>>): Promise<string> {
  const versions = Object.values(packages).map((version) => version.replaceAll(/[^\w.-]/g, '-'))
  const folder = join(CACHE, [name, ...versions].join('-').slice(0, 200))
  if (existsSync(folder)) return folder
  const work = `${folder}-${randomBytes(6).toString('hex')}`
  await mkdir(work, { recursive: true })
  try {
    await writeFile(
      join(work, 'package.json'),
      JSON.stringify({ private: true, type: 'module', dependencies: packages }),
    )
    await run('npm', ['install', '--ignore-scripts', '--no-audit', '--no-fund'], { timeoutMs: NPM_MS, cwd: work })
    await rename(work, folder).catch(async (error: unknown) => {
      if (!existsSync(folder)) throw error
    })
    return folder
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}
