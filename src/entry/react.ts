export { idempotentCallHook } from '../client/react.ts'
export type { HookedCall, HookOptions, ReactLike, ShownCall } from '../client/react.ts'
