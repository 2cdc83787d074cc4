import { describePostgres } from '../support/postgres.ts'
import { serverDeadline } from '../support/server-deadline.ts'

describePostgres("the server's deadline beside limits of the database's owner", serverDeadline)
