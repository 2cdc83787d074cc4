/**
 * How one kind of test server is had. Each server has one file in this folder with one recipe.
 *
 * A recipe lists its ways in order of preference. A way either returns a running server or throws; what it threw becomes
 * part of the reason under which the server is reported as missing. Nothing is ever skipped silently.
 */

import type { HaltSignal } from './keep.ts'

export interface RunningServer {
  readonly url: string
  /** Ends the server and removes everything it left on disk. Safe to call twice. */
  stop(): Promise<void>
  /** Ends the server for a while, by this signal if one is given; it keeps its port and its data. Absent where that cannot be done. */
  halt?(signal?: HaltSignal): Promise<void>
  /** Starts a halted server again; resolves when it answers. */
  resume?(): Promise<void>
}

export interface ServerWay {
  /** How the server is had, in a word or two: `embedded`, `docker`, `debian`. */
  readonly name: string
  start(): Promise<RunningServer>
}

export interface ServerRecipe {
  /** The server's name in `startServers([...])`, in `inject('servers')` and in messages. */
  readonly name: string
  /** The environment variable that names a server somebody else runs. It wins over every way. */
  readonly environmentVariable: string
  readonly ways: readonly ServerWay[]
}

/** A server that answers, with how it was had; or the reason why there is none. */
export type Server = { readonly url: string; readonly from: string } | { readonly missing: string }

export function isMissing(server: Server): server is { readonly missing: string } {
  return 'missing' in server
}
