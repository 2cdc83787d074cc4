export { memoryBroker } from './memory-broker.ts'
export type { MemoryBroker, MemoryBrokerOptions, MemoryMessage } from './memory-broker.ts'
export { sourceContract, sourceContractNames } from './source-contract.ts'
export type { SourceTarget } from './source-contract.ts'
