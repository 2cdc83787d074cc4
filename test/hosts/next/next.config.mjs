// oxlint-disable-next-line no-default-export -- Next.js wants it
export default {
  outputFileTracingRoot: import.meta.dirname,
  experimental: { cpus: 1 },
  eslint: { ignoreDuringBuilds: true },
  typescript: { ignoreBuildErrors: true },
}
