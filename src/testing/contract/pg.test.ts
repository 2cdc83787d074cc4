import { pgContract } from '../../../test/support/pg-contract.ts'
import { describePostgres } from '../../../test/support/postgres.ts'

describePostgres('the contract, on PostgreSQL', (database) => pgContract(database))
