import { notFound, permanentRedirect, redirect } from 'next/navigation'

export const dynamic = 'force-dynamic'

const answers = {
  created: () => Response.json({ made: true }, { status: 201 }),
  redirect: () => redirect('/else;where'),
  permanent: () => permanentRedirect('/elsewhere'),
  refuse: () => notFound(),
  fail: () => new Response(null, { status: 503 }),
  mistake: () => {
    throw new Error('a mistake of the handler')
  },
}

export const POST = async (request, { params }) => {
  const { kind } = await params
  return globalThis.protect(answers[kind])(request)
}
