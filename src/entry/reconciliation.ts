export { reconciliation } from '../reconciliation/reconciliation.ts'
export { settleStep, type Settled, type StepCall } from '../reconciliation/settle-step.ts'
export type * from '../reconciliation/types.ts'
