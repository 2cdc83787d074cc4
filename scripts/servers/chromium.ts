import { existsSync } from 'node:fs'
import { debianBinary } from './debian.ts'
import { isRequired } from './index.ts'
import { messageOf } from './process.ts'

/** A browser on this machine, or the reason why there is none. It is not a server: the test starts and ends it. */
export type Browser = { readonly executable: string; readonly from: string } | { readonly missing: string }

/**
 * The browser that `CHROMIUM` names, or else Debian's, which is installed if permitted. Throws if there is none and
 * `REQUIRE_SERVICES` requires it.
 */
export async function findChromium(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Browser> {
  const browser = await look(environment)
  if ('missing' in browser && isRequired('chromium', environment)) {
    throw new Error(`REQUIRE_SERVICES asks for a browser that cannot be had. ${browser.missing}`)
  }
  return browser
}

async function look(environment: Readonly<Record<string, string | undefined>>): Promise<Browser> {
  const named = environment['CHROMIUM']
  if (named) {
    return existsSync(named)
      ? { executable: named, from: 'environment' }
      : { missing: `CHROMIUM names ${named}, which does not exist` }
  }
  try {
    return { executable: await debianBinary('chromium', 'chromium'), from: 'debian' }
  } catch (error) {
    return { missing: `CHROMIUM is not set; debian: ${messageOf(error)}` }
  }
}
