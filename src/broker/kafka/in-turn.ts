/** Merges lists: the first element of each, then the second of each, and so on. */
export function inTurn<T>(lists: readonly (readonly T[])[]): T[] {
  const all: T[] = []
  const longest = Math.max(0, ...lists.map(({ length }) => length))
  for (let at = 0; at < longest; at++) {
    for (const list of lists) if (at < list.length) all.push(list[at] as T)
  }
  return all
}
