/** Imports a package that is installed in this folder. A compiled program stands in another one. */
export const load = (name) => import(name)
