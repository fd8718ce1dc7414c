const distanceMax = 4

/** The known name that is fewest edits away from `name`, if it is close enough to be meant; the first of equals. */
export function didYouMean(name: string, known: readonly string[]): string | undefined {
  let closest: string | undefined
  let closestDistance = distanceMax + 1
  for (const candidate of known) {
    const distance = editDistance(name, candidate)
    if (distance < closestDistance) {
      closest = candidate
      closestDistance = distance
    }
  }
  return closest
}

/** Levenshtein's distance; names longer than twice any of ours count as far, which bounds the work. */
function editDistance(left: string, right: string): number {
  if (Math.abs(left.length - right.length) > distanceMax) return distanceMax + 1
  let row = Array.from({ length: right.length + 1 }, (_none, index) => index)
  for (let i = 1; i <= left.length; i += 1) {
    const next = [i]
    for (let j = 1; j <= right.length; j += 1) {
      const same = left[i - 1] === right[j - 1]
      const replaced = (row[j - 1] ?? 0) + (same ? 0 : 1)
      next.push(Math.min(replaced, (row[j] ?? 0) + 1, (next[j - 1] ?? 0) + 1))
    }
    row = next
  }
  return row[right.length] ?? 0
}
