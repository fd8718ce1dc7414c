/** A path that fails on purpose, for watching retries. */
export interface Trial {
  readonly path: string
  readonly does: string
}

/** The failures to choose from. A path below one of them does the same. */
export const trials = [
  { path: '/fail', does: 'answers 500' },
  { path: '/flaky', does: 'answers 500 to the first two calls of each webhook-id, then 200' },
  { path: '/slow', does: 'answers 200 after 20 seconds' },
  { path: '/gone', does: 'answers 410, which suspends the callback' },
] as const satisfies readonly Trial[]

/** How the sink answers a call. */
export interface PlannedAnswer {
  readonly status: 200 | 410 | 500
  readonly isSlow: boolean
}

const flakyFailures = 2

/**
 * Decides the answer to a call.
 * @param flakyCalls counts a call to /flaky, and gives how many of this webhook-id came there, this one included
 */
export function planAnswer(pathname: string, flakyCalls: () => number): PlannedAnswer {
  const trial = trials.find(({ path }) => pathname === path || pathname.startsWith(`${path}/`))
  switch (trial?.path) {
    case '/fail':
      return { status: 500, isSlow: false }
    case '/flaky':
      return { status: flakyCalls() <= flakyFailures ? 500 : 200, isSlow: false }
    case '/slow':
      return { status: 200, isSlow: true }
    case '/gone':
      return { status: 410, isSlow: false }
    case undefined:
      return { status: 200, isSlow: false }
  }
}
