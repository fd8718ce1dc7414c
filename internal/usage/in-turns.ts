import type { Clock } from '#internal/base/index.ts'

/** One for whom the work failed. */
export interface Failure<T> {
  readonly each: T
  readonly error: unknown
}

/** What is left to be done after all were gone through. */
export interface TurnsTaken<T> {
  readonly failed: readonly Failure<T>[]
  /** Those whose turn did not come: time was up. They come first the next time, so that it does come. */
  readonly left: readonly T[]
}

const parallelMax = 64
/** Failures may take until a time-out each: once there are some, nothing more is begun after so long. */
const failingMsMax = 2_000

/**
 * Does work for some at a time, at most 64. One that fails keeps none of the others from theirs, unless failing takes over two
 * seconds: then the rest is left.
 * @param work gives those for whom it failed; does not throw
 */
export async function inTurns<T>(
  all: readonly T[],
  clock: Clock,
  work: (some: readonly T[]) => Promise<readonly Failure<T>[]>,
): Promise<TurnsTaken<T>> {
  const endMs = clock.now() + failingMsMax
  const failed: Failure<T>[] = []
  for (let at = 0; at < all.length; at += parallelMax) {
    if (failed.length > 0 && clock.now() > endMs) return { failed, left: all.slice(at) }
    failed.push(...(await work(all.slice(at, at + parallelMax))))
  }
  return { failed, left: [] }
}

/** Does work for each at the same time, and waits for all of them. Never throws. */
export async function settleEach<T, R>(
  some: readonly T[],
  work: (each: T) => Promise<R>,
): Promise<{ readonly done: readonly R[]; readonly failed: readonly Failure<T>[] }> {
  const done: R[] = []
  const failed: Failure<T>[] = []
  const one = async (each: T) => {
    try {
      done.push(await work(each))
    } catch (error) {
      failed.push({ each, error })
    }
  }
  await Promise.all(some.map(one))
  return { done, failed }
}
