import { answerCases } from './answer-cases.ts'
import { batchedCases } from './batched-cases.ts'
import type { ContractCase } from './check.ts'
import { Client, type HttpTarget } from './client.ts'
import { keyCases } from './key-cases.ts'
import { stripeCases } from './stripe-cases.ts'
import { troubleCases } from './trouble-cases.ts'

const CASES = { ...keyCases, ...answerCases, ...troubleCases, ...batchedCases, ...stripeCases }

/** The names of the cases, for test runners that collect tests before a server is available. */
export const httpContractNames: readonly string[] = Object.keys(CASES)

/**
 * The tests that every HTTP adapter must pass. They run against a server that serves `contractRoutes` through the
 * adapter, and work with any test runner.
 *
 * @example
 * for (const { name, run } of httpContract(target)) test(name, run)
 */
export function httpContract(target: HttpTarget): readonly ContractCase[] {
  const client = new Client(target.base)
  return Object.entries(CASES).map(([name, body]) => ({ name, run: () => body(client, target) }))
}
