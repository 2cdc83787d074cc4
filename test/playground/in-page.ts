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

/** What a visitor sees of the leaks and the counts, when so much has leaked. */
export function leaked(count: '999' | '12,345'): string {
  return `(() => {
    for (const leak of document.querySelectorAll('.leak')) leak.textContent = '${count} duplicates, ${count} lost'
    document.querySelector('.of').textContent = 'round 12: 4,321 operations'
    for (const count of document.querySelectorAll('.count')) {
      count.firstElementChild.textContent = '${count}'
      count.classList.add('leaks')
      count.classList.toggle('long', ${count.length > 3})
    }
  })()`
}

/** Texts of the triangle that one of its edges crosses. */
export const CROSSED = `(() => {
  const matrix = document.querySelector('.triangle svg').getScreenCTM()
  const edges = [...document.querySelectorAll('.edge')].map((path) => {
    const at = (length) => path.getPointAtLength(length).matrixTransform(matrix)
    return [at(0), at(path.getTotalLength())]
  })
  const elements = [...document.querySelectorAll('.leak, .count, .count b, .of, .edge-labels text')]
  const texts = elements.flatMap(({ childNodes }) => [...childNodes].filter(({ nodeType }) => nodeType === 3))
  return texts.flatMap((text) => {
    const range = document.createRange()
    range.selectNode(text)
    const boxes = [...range.getClientRects()]
    const inside = ({ x, y }) => boxes.some((box) => x > box.left && x < box.right && y > box.top && y < box.bottom)
    const crossed = edges.some(([from, to]) =>
      Array.from({ length: 1001 }, (_, n) => n / 1000).some((part) =>
        inside({ x: from.x + (to.x - from.x) * part, y: from.y + (to.y - from.y) * part }),
      ),
    )
    return crossed ? [text.textContent] : []
  })
})()`

/** How many pixels of the select's widest choice cannot be seen. */
export const CUT_OFF = `(() => {
  const select = document.querySelector('#crash')
  const whole = select.cloneNode(true)
  whole.style.cssText = 'position: absolute; flex: none; width: max-content; max-width: none'
  select.after(whole)
  const missing = whole.getBoundingClientRect().width - select.getBoundingClientRect().width
  whole.remove()
  return Math.max(0, Math.round(missing))
})()`

export const SCALES = `[...document.querySelectorAll('.plot')].map((plot) => ({
  scale: [...plot.querySelectorAll('.scale span')].map((span) => Number(span.textContent)),
  time: [...plot.querySelectorAll('.time span')].map((span) => span.textContent),
}))`

/** The clicks of somebody who does not wait: another vertex away, and its leak at once. */
export const QUICK_CLICKS = `(() => {
  document.querySelector('[data-vertex=key]').click()
  document.querySelector('[data-vertex=inbox]').click()
  document.querySelector('#show-leak').click()
})()`

export const PAGE_WIDTH = 'document.documentElement.scrollWidth'

/** Whatever can be used or read and is not wholly inside of this width. */
export function outside(width: number): string {
  return `[...document.querySelectorAll('button, select, input, th, .leak, .count')].flatMap((element) => {
    const { left, right } = element.getBoundingClientRect()
    return left < 0 || right > ${width} ? [(element.id || element.textContent) + ': ' + left + ' to ' + right] : []
  })`
}
