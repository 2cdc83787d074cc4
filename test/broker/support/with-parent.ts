/** A process that imports this ends with the one that started it, however that one ends. */
process.stdin.on('end', () => process.exit()).resume()
