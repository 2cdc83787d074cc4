/** The playground alone, without the demo in the terminal: `npx tsx examples/playground/main.ts`. */
import { showPlayground } from './show.ts'

await showPlayground((text) => void process.stdout.write(text))
