import process from 'node:process'
import { serviceOf } from './app.mjs'

const { handle } = serviceOf(process.env.DATABASE_URL)
const onListen = ({ port }) => console.log(`listening ${port}`)
Deno.serve({ port: 0, hostname: '127.0.0.1', onListen }, (request) => handle(request))
