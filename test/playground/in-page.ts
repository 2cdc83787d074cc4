/** Expressions that run in the page; as text, because nothing else here knows of a document. */

export function styleOf(selector: string, property: string): string {
  return `getComputedStyle(document.querySelector(${JSON.stringify(selector)}))[${JSON.stringify(property)}]`
}

export interface Focused {
  readonly name: string
  readonly label: string
  readonly outlineStyle: string
  readonly outlineWidth: string
}

export const FOCUSED = `(() => {
  const element = document.activeElement
  const { outlineStyle, outlineWidth } = getComputedStyle(element)
  const label = element.getAttribute('aria-label') ?? element.closest('label')?.textContent ?? element.textContent
  const name = element.dataset.vertex ?? element.dataset.fault ?? element.id
  return { name, label: label.trim(), outlineStyle, outlineWidth }
})()`

/** The colour of what went wrong. */
export const DANGER = `(() => {
  const probe = document.createElement('p')
  probe.className = 'error'
  document.body.append(probe)
  const { color } = getComputedStyle(probe)
  probe.remove()
  return color
})()`

export const STAGES_FOLLOWED = `[...document.querySelectorAll('#happenings li')].map((item) => item.dataset.stage)`

export const PAGE_WIDTH = 'document.documentElement.scrollWidth'

/** Whatever can be used or read and is not wholly inside of this width. */
export function outside(width: number): string {
  return `[...document.querySelectorAll('button, select, input, th, .leak, .count')].flatMap((element) => {
    const { left, right } = element.getBoundingClientRect()
    return left < 0 || right > ${width} ? [(element.id || element.textContent) + ': ' + left + ' to ' + right] : []
  })`
}
