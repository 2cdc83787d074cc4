import { describe, expect, it } from 'vitest'
import { placeIn } from './place.ts'

const OWN = '    at stackNow (file:///app/node_modules/effectively-once/dist/guard/place.js:36:21)'

describe('the place of a call', () => {
  const place = (...frames: string[]) => placeIn(['Error', OWN, ...frames].join('\n'), '/app')

  it.each([
    ['at charge (file:///app/src/charges.ts:41:9)', 'src/charges.ts:41'],
    ['at async charge (/app/src/charges.ts:41:9)', 'src/charges.ts:41'],
    ['at /app/src/charges.ts:41:9', 'src/charges.ts:41'],
    ['at async file:///app/src/charges.ts:41:9', 'src/charges.ts:41'],
    ['at new Charge (file:///app/src/my%20shop/(pay)/charges.ts:41:9)', 'src/my shop/(pay)/charges.ts:41'],
    ['at charge (file:///app/src/100%.ts:41:9)', 'src/100%.ts:41'],
    ['at charge (file:///elsewhere/charges.ts:41:9)', 'charges.ts:41'],
    ['at charge (file:///application/charges.ts:41:9)', 'charges.ts:41'],
  ])('%s', (frame, expected) => {
    expect(
      place(
        '    at watched (file:///app/node_modules/effectively-once/dist/store/postgres/pg-watch.js:60:5)',
        '    at execute (/app/node_modules/drizzle-orm/node-postgres/session.js:10:3)',
        '    at process.processTicksAndRejections (node:internal/process/task_queues:95:5)',
        '    at async Promise.all (index 0)',
        `    ${frame}`,
        '    at main (/app/src/main.ts:1:1)',
      ),
    ).toBe(expected)
  })

  it('on Windows', () => {
    const stack = [
      'Error',
      String.raw`    at stackNow (C:\app\lib\guard\place.js:36:21)`,
      String.raw`    at watched (C:\app\lib\store\pg.js:1:1)`,
      String.raw`    at execute (C:\app\node_modules\kysely\index.js:1:1)`,
      '    at charge (file:///C:/app/src/charges.ts:41:9)',
    ]
    expect(placeIn(stack.join('\n'), String.raw`C:\app`)).toBe('src/charges.ts:41')
  })

  it('is unknown without a frame of the program, or where all code is one file', () => {
    expect(place('    at run (/app/node_modules/pg/index.js:1:1)')).toBe(null)
    expect(placeIn('Error\n    at a (/app/bundle.js:1:2)\n    at b (/app/bundle.js:3:4)', '/app')).toBe(null)
    expect(placeIn('', '/app')).toBe(null)
  })
})
