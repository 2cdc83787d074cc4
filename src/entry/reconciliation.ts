export { reconciliation } from '../reconciliation/reconciliation.ts'
export type * from '../reconciliation/types.ts'
