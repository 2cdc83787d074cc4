/** The playground alone, without the story: `npx tsx examples/playground/main.ts`. */
import { showPlayground } from './show.ts'

await showPlayground((text) => void process.stdout.write(text))
