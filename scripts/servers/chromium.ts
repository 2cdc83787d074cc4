import { existsSync } from 'node:fs'
import { debianBinary } from './debian.ts'
import { messageOf } from './process.ts'

/** A browser on this machine, or why there is none. It is no server: whoever tests with it starts and ends it. */
export type Browser = { readonly executable: string; readonly from: string } | { readonly missing: string }

/** The browser that `CHROMIUM` names, else Debian's, which is installed when we may. */
export async function findChromium(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): Promise<Browser> {
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
