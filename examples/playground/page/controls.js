import { currentSettings, post, setSettings, settledSettings } from './api.js'
import { byId, write } from './dom.js'

const TRAFFIC = 6
const CALM = { lostResponses: false, retryStorm: false, duplicates: false, crash: 'off' }
const EVERYTHING = { lostResponses: true, retryStorm: true, duplicates: true, crash: 'anywhere' }

/** What each vertex prevents, and the faults that show it. */
const MISSING = {
  key: {
    hint: 'No key: every retry is another charge. You see this when answers are lost or requests are repeated.',
    faults: { lostResponses: true },
  },
  outbox: {
    hint: 'No outbox: the event is sent outside the transaction. If the process dies in between, the event is lost.',
    faults: { crash: 'after-commit' },
  },
  inbox: {
    hint: 'No inbox: every delivery is applied. A broker that delivers twice makes two receipts.',
    faults: { duplicates: true },
  },
}

const faults = [...document.querySelectorAll('[data-fault]')]
for (const input of faults) {
  on(input, 'change', () => setSettings({ faults: { [input.dataset.fault]: input.checked } }))
}
on(byId('crash'), 'change', () => setSettings({ faults: { crash: byId('crash').value } }))
on(byId('traffic'), 'change', () => setSettings({ traffic: byId('traffic').checked ? TRAFFIC : 0 }))
on(byId('charge'), 'click', () => post('/charges', { count: 1 }))
on(byId('charge-ten'), 'click', () => post('/charges', { count: 10 }))
on(byId('everything'), 'click', () => setSettings({ faults: EVERYTHING, traffic: TRAFFIC }))
on(byId('calm'), 'click', () => setSettings({ faults: CALM, traffic: 0 }))
on(byId('kill-shop'), 'click', () => post('/kills', { service: 'shop' }))
on(byId('kill-receipts'), 'click', () => post('/kills', { service: 'receipts' }))
on(byId('show-leak'), 'click', async () => {
  const name = missingOf(await settledSettings())
  if (name) await setSettings({ faults: { ...CALM, ...MISSING[name].faults }, traffic: TRAFFIC })
})

export function showControls(snapshot) {
  const settings = currentSettings(snapshot)
  if (!settings) return
  for (const input of faults) input.checked = settings.faults[input.dataset.fault]
  // Do not change the field while somebody is choosing.
  if (document.activeElement !== byId('crash')) byId('crash').value = settings.faults.crash
  byId('traffic').checked = settings.traffic > 0
  const missing = missingOf(settings)
  byId('show-leak').hidden = missing === undefined
  write(byId('hint'), missing ? MISSING[missing].hint : hintOf(settings))
}

function missingOf({ vertices }) {
  return Object.keys(MISSING).find((name) => !vertices[name])
}

function hintOf({ faults: { lostResponses, retryStorm, duplicates, crash } }) {
  return lostResponses || retryStorm || duplicates || crash !== 'off'
    ? 'Things go wrong all the time, and every operation ends with one charge, one event and one receipt.'
    : 'All three vertices are in place. Let everything go wrong at once: the counts stay at zero. Then take one away.'
}

function on(target, type, act) {
  target.addEventListener(type, () => void act())
}
