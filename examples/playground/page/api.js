import { byId, write } from './dom.js'

/** One verb of the playground; what it refuses is told in one line. */
export async function post(path, body = {}) {
  try {
    const answer = await fetch(path, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    })
    const result = await answer.json()
    write(byId('error'), answer.ok ? '' : result.error)
    return answer.ok ? result : undefined
  } catch {
    write(byId('error'), 'The playground does not answer. Is its terminal still open?')
    return undefined
  }
}

export const setSettings = (change) => post('/settings', change)
