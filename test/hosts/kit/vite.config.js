import { sveltekit } from '@sveltejs/kit/vite'

// oxlint-disable-next-line no-default-export -- Vite wants it
export default { plugins: [sveltekit()], logLevel: 'error' }
