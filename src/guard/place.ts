/** Between a call of `fetch` and its request there are about thirty frames. */
const FRAMES_MAX = 60
/** The file of a frame is a path or a file URL. Frames of Node (`node:…`) and of evaluated code have neither. */
const FRAME = /(?:\(|\bat (?:async )?)((?:file:\/\/)?(?:\/|[A-Za-z]:[\\/]).*):(\d+):\d+\)?$/
const OWN_FILE = /\/guard\/place\.[jt]s$/

/**
 * The place of the program's call, such as `src/charges.ts:41`: the first frame that belongs neither to Node, nor to a
 * package, nor to us. Null: the stack has none, because a query builder sends later, or a bundler put all code into one
 * file.
 */
export function callerPlace(): string | null {
  return placeIn(stackNow(), globalThis.process?.cwd?.() ?? '')
}

/** The first frame of `stack` is this file, which shows where this package is installed. */
export function placeIn(stack: string, cwd: string): string | null {
  let own: string | null = null
  for (const line of stack.split('\n')) {
    const match = FRAME.exec(line)
    if (!match) continue
    const file = pathOf(match[1] ?? '')
    if (own === null) {
      if (!OWN_FILE.test(file)) return null
      own = file.replace(OWN_FILE, '/')
    } else if (!file.startsWith(own) && !file.includes('/node_modules/')) {
      return `${shortened(file, cwd)}:${match[2]}`
    }
  }
  return null
}

function stackNow(): string {
  const limit = Error.stackTraceLimit
  Error.stackTraceLimit = FRAMES_MAX
  const { stack } = new Error()
  Error.stackTraceLimit = limit
  return typeof stack === 'string' ? stack : ''
}

/** The path with forward slashes. */
function pathOf(file: string): string {
  const path = file.startsWith('file://') ? decoded(file.slice('file://'.length)).replace(/^\/(?=[A-Za-z]:)/, '') : file
  return path.replaceAll('\\', '/')
}

function decoded(path: string): string {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

function shortened(file: string, cwd: string): string {
  const here = `${cwd.replaceAll('\\', '/')}/`
  return file.startsWith(here) ? file.slice(here.length) : file.slice(file.lastIndexOf('/') + 1)
}
