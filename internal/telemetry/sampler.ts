/** Says of one line after the other whether it is written. */
export type Sampler = () => boolean

/**
 * Makes a sampler that lets a share of lines through, 0 to 1, evenly and without chance: of four lines at 0.5 two. The share is
 * asked for each time, so that it may change.
 */
export function createSampler(share: () => number): Sampler {
  let owed = 0
  return () => {
    const now = share()
    if (now >= 1) return true
    owed += now
    if (owed < 1) return false
    owed -= 1
    return true
  }
}
