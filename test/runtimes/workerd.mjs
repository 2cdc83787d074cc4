import { serviceOf } from './app.mjs'

// oxlint-disable-next-line no-default-export -- workerd wants it
export default {
  /** A socket belongs to the request that opened it, so each request has a service of its own. */
  async fetch(request, env, context) {
    const { handle, close } = serviceOf(env.DATABASE_URL)
    const response = await handle(request)
    context.waitUntil(close())
    return response
  },
}
