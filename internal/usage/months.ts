/** Returns the start of the UTC month that contains the given time, in ms since the epoch. */
export function monthStartMs(nowMs: number): number {
  const now = new Date(nowMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth(), 1)
}

/** Returns the end of the UTC month that contains the given time, in ms since the epoch. */
export function monthEndMs(nowMs: number): number {
  const now = new Date(nowMs)
  return Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1)
}
