export { idempotentTool } from '../mcp/tool.ts'
export { toolKey } from '../mcp/key.ts'
export type { ToolKeyParts } from '../mcp/key.ts'
export type { ToolCall, ToolContent, ToolExtra, ToolOptions, ToolResource, ToolResult } from '../mcp/types.ts'
