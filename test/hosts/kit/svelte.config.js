// oxlint-disable-next-line no-default-export -- SvelteKit wants it
export default { kit: { csrf: { trustedOrigins: ['*'] } } }
