import type { Duration } from '../duration.ts'
import type { OnceError } from '../errors.ts'
import type { RunOptions } from '../operation/types.ts'

/** The part of a request that keys and scopes need, as the MCP SDK passes it to a tool's callback. */
export interface ToolExtra {
  /** What the client sent beside the arguments. */
  readonly _meta?: { readonly [name: string]: unknown } | undefined
}

/** One call of a tool. `extra` is the second argument of the SDK's callback, with session and authentication. */
export interface ToolCall<Args = unknown, Extra extends ToolExtra = ToolExtra> {
  readonly tool: string
  readonly args: Args
  readonly extra: Extra
}

/** The result of a tool, as MCP defines it. */
export interface ToolResult {
  content: ToolContent[]
  structuredContent?: { [name: string]: unknown } | undefined
  isError?: boolean | undefined
  _meta?: { [name: string]: unknown } | undefined
  [name: string]: unknown
}

export type ToolContent =
  | { type: 'text'; text: string; [name: string]: unknown }
  | { type: 'image' | 'audio'; data: string; mimeType: string; [name: string]: unknown }
  | { type: 'resource_link'; uri: string; name: string; [name: string]: unknown }
  | { type: 'resource'; resource: ToolResource; [name: string]: unknown }

export type ToolResource = { uri: string; mimeType?: string | undefined; [name: string]: unknown } & (
  { text: string } | { blob: string }
)

/** The options of one tool: those of `once.run`, and where scope and key of a call come from. */
export interface ToolOptions<Args, Extra extends ToolExtra, L extends Duration | undefined = undefined> extends Omit<
  RunOptions<L>,
  'scope' | 'key' | 'input' | 'label'
> {
  /** The tool's name. A key that was used for another tool is refused. */
  name: string
  /** The owner of the keys: the authenticated caller. With an explicit 'global', all callers share their keys. */
  scope: 'global' | ((call: ToolCall<Args, Extra>) => string)
  /** The key of the intention. Undefined: the call is refused. `toolKey` reads or derives it. */
  key: (call: ToolCall<Args, Extra>) => string | undefined | Promise<string | undefined>
  /** Leased only: a text by which an operator finds the operation. */
  label?: (call: ToolCall<Args, Extra>) => string | undefined
  /** Called with errors that neither the model nor its user can resolve. Default: one line on standard error. */
  onError?: (error: OnceError, call: ToolCall<Args, Extra>) => void
}
