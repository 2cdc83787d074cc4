import { fileURLToPath } from 'node:url'

/** A program beside this module, to be run by another process: as TypeScript where we are, compiled where we are. */
export function programBeside(
  moduleUrl: string,
  name: string,
): { readonly file: string; readonly execArgv: readonly string[] } {
  const isCompiled = moduleUrl.endsWith('.js')
  const file = fileURLToPath(new URL(`./${name}.${isCompiled ? 'js' : 'ts'}`, moduleUrl))
  return { file, execArgv: isCompiled ? [] : ['--import', 'tsx'] }
}
