import { fileURLToPath } from 'node:url'

/**
 * The path of a program next to this module, to be run by another process. It is TypeScript or compiled, like this
 * module.
 */
export function programBeside(
  moduleUrl: string,
  name: string,
): { readonly file: string; readonly execArgv: readonly string[] } {
  const isCompiled = moduleUrl.endsWith('.js')
  const file = fileURLToPath(new URL(`./${name}.${isCompiled ? 'js' : 'ts'}`, moduleUrl))
  return { file, execArgv: isCompiled ? [] : ['--import', 'tsx'] }
}
