import { byId, write } from './dom.js'

/** Sends one command to the playground. The page shows the reason of a refusal. */
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

let known
let underWay = 0
let changes = Promise.resolve()

/** Changes reach the playground one after the other, in the order of the clicks. */
export function setSettings(change) {
  underWay++
  changes = changes.then(async () => {
    const made = await post('/settings', change)
    if (made) known = made
    underWay--
  })
  return changes
}

/** The settings after every change that this page has made. */
export async function settledSettings() {
  await changes
  return known?.settings
}

/** The settings to show. Undefined while a change is on its way: a snapshot may be older than the click. */
export function currentSettings({ settings, revision }) {
  if (underWay > 0) return undefined
  if (!known || revision >= known.revision) known = { settings, revision }
  return known.settings
}
