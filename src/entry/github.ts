export { githubSource } from '../source/github.ts'
export type { GithubEvent, GithubEvents, GithubSourceOptions } from '../source/github.ts'
