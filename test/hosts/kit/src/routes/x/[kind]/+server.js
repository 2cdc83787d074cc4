import { error, json, redirect } from '@sveltejs/kit'

const answers = {
  created: () => json({ made: true }, { status: 201 }),
  redirect: () => redirect(303, '/elsewhere'),
  refuse: () => error(402, { message: 'declined', code: 'card' }),
  fail: () => error(503, 'later'),
  mistake: () => {
    throw new Error('a mistake of the handler')
  },
}

export const POST = ({ params, request }) => globalThis.protect(answers[params.kind])(request)
