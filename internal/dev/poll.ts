/** How long to wait for something and how often to look. */
export interface PollBounds {
  readonly deadlineMs: number
  readonly everyMs?: number
}

/**
 * Asks `check` until it gives something else than undefined, and gives that; undefined once the deadline has passed.
 * What `check` throws ends the wait.
 */
export async function poll<T>(
  check: () => Promise<T | undefined> | T | undefined,
  bounds: PollBounds,
): Promise<T | undefined> {
  const end = performance.now() + bounds.deadlineMs
  for (;;) {
    const found = await check()
    if (found !== undefined || performance.now() >= end) return found
    await Bun.sleep(bounds.everyMs ?? 20)
  }
}
