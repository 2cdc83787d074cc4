import { describeSqlite } from '../../../test/support/sqlite.ts'
import { sqliteContract } from '../../../test/support/sqlite-contract.ts'

describeSqlite('the contract, on SQLite', (lab) => sqliteContract(lab))
