import Fastify from 'fastify'
import { CONNECTIONS } from '../../support/database.ts'
import type { Charge, Charged } from '../../support/charge.ts'
import { loadPeer } from '../packages.ts'
import type { StartPeer } from './peer.ts'

type Workflow = (charge: Charge) => Promise<Charged>
interface Sdk {
  readonly DBOS: {
    setConfig(config: object): void
    launch(): Promise<void>
    registerWorkflow(workflow: Workflow, options: { name: string }): Workflow
    startWorkflow(workflow: Workflow, options: { workflowID: string }): (charge: Charge) => Promise<Handle>
  }
}
interface Handle {
  getResult(): Promise<Charged>
}
interface Sql {
  (text: TemplateStringsArray, ...values: unknown[]): Promise<{ readonly id: string }[]>
}
interface DataSource {
  readonly client: Sql
  runTransaction<T>(work: () => Promise<T>, options: { name: string }): Promise<T>
}
interface DataSources {
  readonly PostgresDataSource: {
    new (name: string, options: object): DataSource
    initializeDBOSSchema(options: object): Promise<void>
  }
}

/** A workflow whose id is the key, with the charge in a transaction of its data source. Its tables are beside ours. */
export const startDbos: StartPeer = async ({ databaseUrl }) => {
  const { DBOS } = await loadPeer<Sdk>('@dbos-inc/dbos-sdk')
  const { PostgresDataSource } = await loadPeer<DataSources>('@dbos-inc/postgres-datasource')
  const { hostname: host, port, username, password, pathname } = new URL(databaseUrl)
  const options = { host, port: Number(port), username, password, database: pathname.slice(1), max: CONNECTIONS }
  await PostgresDataSource.initializeDBOSSchema({ ...options, max: 1, onnotice: () => {} })
  const source = new PostgresDataSource('charges', options)
  const insert = async ({ account, amount }: Charge): Promise<Charged> => {
    const [row] = await source.client`insert into charge (account, amount) values (${account}, ${amount}) returning id`
    return { id: String(row?.id), account, amount }
  }
  const workflow = DBOS.registerWorkflow(
    (charge) => source.runTransaction(() => insert(charge), { name: 'insert charge' }),
    { name: 'charge' },
  )
  DBOS.setConfig({
    name: 'bench',
    systemDatabaseUrl: databaseUrl,
    systemDatabasePoolSize: CONNECTIONS,
    logLevel: 'error',
  })
  await DBOS.launch()
  const app = Fastify()
  app.post<{ Body: Charge }>('/charge', async (request, reply) => {
    const workflowID = String(request.headers['idempotency-key'])
    const handle = await DBOS.startWorkflow(workflow, { workflowID })(request.body)
    return reply.code(201).send(await handle.getResult())
  })
  const address = await app.listen({ port: 0, host: '127.0.0.1' })
  return { port: Number(new URL(address).port), hasOwnConnections: true }
}
