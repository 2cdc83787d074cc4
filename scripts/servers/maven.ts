import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { debianBinary } from './debian.ts'
import { run } from './process.ts'

const MAVEN_MS = 300_000
const CACHE = fileURLToPath(new URL('../../node_modules/.cache/effectively-once', import.meta.url))

/**
 * The folder with these artifacts (`group:name:version`) and their dependencies. They are fetched once. Another run may
 * fetch them at the same time; the first result is kept.
 */
export async function mavenJars(name: string, artifacts: readonly string[]): Promise<string> {
  const folder = join(CACHE, name)
  const libs = join(folder, 'libs')
  if (existsSync(libs)) return libs
  const maven = await debianBinary('mvn', 'maven')
  const work = `${folder}-${randomBytes(6).toString('hex')}`
  await mkdir(work, { recursive: true })
  try {
    const pom = join(work, 'pom.xml')
    await writeFile(pom, pomOf(name, artifacts))
    const goal = ['dependency:copy-dependencies', `-DoutputDirectory=${join(work, 'libs')}`]
    await run(maven, ['-q', '-B', '-f', pom, ...goal], { timeoutMs: MAVEN_MS, cwd: work })
    await rename(work, folder).catch(async (error: unknown) => {
      if (!existsSync(libs)) throw error
    })
    return libs
  } finally {
    await rm(work, { recursive: true, force: true })
  }
}

function pomOf(name: string, artifacts: readonly string[]): string {
  const dependencies = artifacts.map((artifact) => {
    const [group, id, version] = artifact.split(':')
    return `<dependency><groupId>${group}</groupId><artifactId>${id}</artifactId><version>${version}</version></dependency>`
  })
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>effectively-once</groupId>
  <artifactId>test-${name}</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <dependencies>${dependencies.join('')}</dependencies>
</project>
`
}
