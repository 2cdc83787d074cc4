export { simulate, SimulationError } from './simulate.ts'
export type { Fault, Scenario, SimulatedClient, SimulateOptions, SimulationReport } from './simulate.ts'
