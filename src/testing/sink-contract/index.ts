export { sinkContract, sinkContractNames } from './sink-contract.ts'
export { eventFor } from './target.ts'
export type { Received, SinkTarget } from './target.ts'
