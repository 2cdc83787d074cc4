import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { build, type Rollup } from 'vite'

// The compiled program runs from a copy of the repository, in which the page is not a part.
const ROOT = process.cwd()

/** The pages of the shop: a document and its bundled script, made of one of the files beside this one. */
export async function shopFront(script: 'page' | 'orders' | 'storages' = 'page'): Promise<Record<string, string>> {
  const entry = `${ROOT}/test/client/browser/${script}.mjs`
  await readFile(entry)
  const built = (await build({
    root: fileURLToPath(new URL('.', import.meta.url)),
    configFile: false,
    logLevel: 'error',
    define: { 'process.env.NODE_ENV': '"production"' },
    build: { write: false, minify: true, target: 'es2022', lib: { entry, formats: ['es'], fileName: 'page' } },
  })) as Rollup.RollupOutput[]
  const bundled = built.flatMap(({ output }) => output).find((part) => part.type === 'chunk')
  return {
    '/': '<!doctype html><meta charset="utf-8"><title>Shop</title><link rel="icon" href="data:,"><div id="root"></div><script type="module" src="/page.js"></script>',
    '/page.js': bundled?.code ?? '',
  }
}
