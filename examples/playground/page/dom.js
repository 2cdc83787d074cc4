/** Returns an element by its id. The page has all elements from the start. */
export function byId(id) {
  return document.getElementById(id)
}

/** Writes a text only if it changed, so that nothing is painted or read out without need. */
export function write(element, text) {
  const value = String(text)
  if (element.textContent !== value) element.textContent = value
}

export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name)
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value)
  made.append(...children)
  return made
}

export function drawing(name, attributes = {}) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', name)
  for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value)
  return made
}

export function plural(n, word) {
  if (n === 1) return `1 ${word}`
  return `${n.toLocaleString('en')} ${word.endsWith('s') ? `${word}es` : `${word}s`}`
}
