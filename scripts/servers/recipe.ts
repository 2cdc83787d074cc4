/**
 * How to obtain one kind of test server. Each server has one file in this folder with one recipe.
 *
 * A recipe lists its ways in order of preference. A way either returns a running server or throws. The errors become
 * part of the reason with which the server is reported as missing. No server is skipped silently.
 */

import type { HaltSignal } from './keep.ts'

export interface RunningServer {
  readonly url: string
  /** Ends the server and removes its files. Safe to call twice. */
  stop(): Promise<void>
  /**
   * Ends the server temporarily, by this signal if given. The server keeps its port and its data. Absent if the server
   * cannot be halted.
   */
  halt?(signal?: HaltSignal): Promise<void>
  /** Restarts a halted server, and resolves when it answers. */
  resume?(): Promise<void>
}

export interface ServerWay {
  /** The name of the way, in a word or two: `embedded`, `docker`, `debian`. */
  readonly name: string
  start(): Promise<RunningServer>
}

export interface ServerRecipe {
  /** The server's name in `startServers([...])`, in `inject('servers')` and in messages. */
  readonly name: string
  /** The environment variable with the address of an external server. It takes precedence over every way. */
  readonly environmentVariable: string
  readonly ways: readonly ServerWay[]
}

/** The address of a running server and the way it was obtained, or the reason why it is missing. */
export type Server = { readonly url: string; readonly from: string } | { readonly missing: string }

export function isMissing(server: Server): server is { readonly missing: string } {
  return 'missing' in server
}
