import { serviceOf } from './app.mjs'

const { handle } = serviceOf(process.env.DATABASE_URL)
const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: handle })
console.log(`listening ${server.port}`)
