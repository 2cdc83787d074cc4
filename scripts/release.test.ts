import { expect, it } from 'vitest'
import { nextVersion, refusesLevel, released } from './release.ts'

const CHANGELOG =
  '# Changelog\n\n## [Unreleased]\n\n### Fixed\n\n- One thing.\n\n## [0.1.0] - 2026-01-01\n\n- Everything.\n'
const BREAKING = CHANGELOG.replace('- One thing.', '- **Breaking:** one thing.')

it('counts the version', () => {
  expect([nextVersion('0.1.9', 'patch'), nextVersion('0.1.9', 'minor'), nextVersion('0.1.9', 'major')]).toEqual([
    '0.1.10',
    '0.2.0',
    '1.0.0',
  ])
  expect(() => nextVersion('1.0.0-rc.1', 'patch')).toThrow('is no released version')
})

it('dates what was not released, and leaves room for what comes next', () => {
  expect(released(CHANGELOG, '0.1.1', '2026-02-03')).toBe(
    CHANGELOG.replace('## [Unreleased]\n', '## [Unreleased]\n\n## [0.1.1] - 2026-02-03\n'),
  )
  expect(() => released(CHANGELOG, '0.1.0', '2026-02-03')).toThrow('already')
  expect(() => released(CHANGELOG.replace('- One thing.', ''), '0.1.1', '2026-02-03')).toThrow('nothing new')
  expect(() => released('# Changelog\n', '0.1.1', '2026-02-03')).toThrow('no part')
})

it('refuses a breaking change in too small a version', () => {
  expect(refusesLevel(BREAKING, '0.1.0', 'patch')).toContain('minor')
  expect(refusesLevel(BREAKING, '0.1.0', 'minor')).toBeUndefined()
  expect(refusesLevel(BREAKING, '1.2.0', 'minor')).toContain('major')
  expect(refusesLevel(CHANGELOG, '1.2.0', 'patch')).toBeUndefined()
})
