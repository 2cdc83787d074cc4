import { byId, element, write } from './dom.js'

const ASK_MS = 500
let name = location.hash.slice(1)
let askedAt = 0

byId('unfollow').addEventListener('click', () => follow(''))
addEventListener('hashchange', () => follow(location.hash.slice(1)))

export function followedName() {
  return name
}

/** The address has the causation id, so it is a link to the operation. */
export function follow(causation) {
  name = causation === name && location.hash.slice(1) === name ? '' : causation
  history.replaceState(null, '', name === '' ? location.pathname : `#${name}`)
  askedAt = 0
  void showFollowed()
}

export async function showFollowed() {
  byId('follow').hidden = name === ''
  if (name === '' || Date.now() - askedAt < ASK_MS) return
  askedAt = Date.now()
  const asked = name
  const answer = await fetch(`/operations/${encodeURIComponent(asked)}`).catch(() => undefined)
  if (asked !== name || !answer) return
  write(byId('follow-name'), name)
  const { happenings = [], error } = await answer.json()
  if (error !== undefined) return byId('happenings').replaceChildren(element('li', {}, error))
  const [first] = happenings
  byId('happenings').replaceChildren(...happenings.map((happening) => line(happening, first.at)))
}

function line({ at, stage, what, id }, start) {
  const text = element('span', {}, what)
  if (id) text.append(element('code', {}, id))
  return element(
    'li',
    { 'data-stage': stage },
    element('time', {}, `+${at - start} ms`),
    element('span', {}, stage),
    text,
  )
}
