import type { CycleOutcome } from '#internal/events/index.ts'

/** Outcomes of an event in a replay. `pending`: its delivery is in progress. */
export const replayEventOutcomes = ['delivered', 'failed', 'pending'] as const
/** Outcome of an event in a replay; one of `replayEventOutcomes`. */
export type ReplayEventOutcome = (typeof replayEventOutcomes)[number]

/** Outcome of the deliveries of the first events that a replay queued. */
export interface ReplayOutcome {
  /** Events that the outcome covers, at most 1 000. */
  readonly examinedCount: number
  readonly deliveredCount: number
  readonly failedCount: number
  readonly pendingCount: number
  /** Events that were deleted or replayed again since. */
  readonly otherCount: number
}

export interface ProgressFacts {
  readonly state: 'queued' | 'running' | 'completed' | 'cancelled' | 'failed'
  readonly queuedCount: number
  readonly skipped: Readonly<Partial<Record<Exclude<CycleOutcome, 'queued'>, number>>>
  readonly outcome: ReplayOutcome | null
}

/**
 * Stage of a replay: `delivering` until the deliveries of its queued events have ended, then `failed_again` or `done`. An unfinished,
 * cancelled or failed replay has its state as its stage.
 */
export type ReplayStage =
  | Exclude<ProgressFacts['state'], 'completed'>
  | 'delivering'
  | 'failed_again'
  | 'done'

/** Returns the stage that the list, the page and the APIs show. */
export function stageOf({ state, queuedCount, outcome }: Omit<ProgressFacts, 'skipped'>): ReplayStage {
  if (state !== 'completed') return state
  if (queuedCount === 0) return 'done'
  if (outcome === null || outcome.pendingCount > 0) return 'delivering'
  return outcome.failedCount > 0 ? 'failed_again' : 'done'
}

/** Returns true while the stage can change without a further request. */
export function isMoving(facts: Omit<ProgressFacts, 'skipped'>): boolean {
  return ['queued', 'running', 'delivering'].includes(stageOf(facts))
}

const numbers = new Intl.NumberFormat('en-US')

/** Returns a text such as "12 queued: 9 delivered, 3 failed again; 1 skipped". */
export function progressText({ queuedCount, skipped, outcome }: Omit<ProgressFacts, 'state'>): string {
  const skippedCount = Object.values(skipped).reduce((sum, count) => sum + count, 0)
  const left = skippedCount === 0 ? '' : `; ${numbers.format(skippedCount)} skipped`
  return `${numbers.format(queuedCount)} queued${outcomeText(queuedCount, outcome)}${left}`
}

function outcomeText(queuedCount: number, outcome: ReplayOutcome | null): string {
  if (outcome === null || outcome.examinedCount === 0) return ''
  const { examinedCount, deliveredCount, failedCount, pendingCount, otherCount } = outcome
  const words = [
    [deliveredCount, 'delivered'],
    [failedCount, 'failed again'],
    [pendingCount, 'pending'],
    [otherCount, 'replayed since or deleted'],
  ] as const
  const counts = words.flatMap(([count, word]) => (count === 0 ? [] : [`${numbers.format(count)} ${word}`]))
  const part = examinedCount < queuedCount ? `; of the first ${numbers.format(examinedCount)}` : ''
  return `${part}: ${counts.join(', ')}`
}
