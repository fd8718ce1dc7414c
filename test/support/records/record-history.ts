import type { AcquireOutcome, ExtendOutcome, FetchOutcome, SaveOutcome } from '#internal/records/record.ts'

/** Times of a call and its answer: numbers of one increasing counter, or milliseconds if the clock of the history runs. */
interface Span {
  readonly startedAt: number
  readonly endedAt: number
}

/**
 * Call and result. Each run saves a unique body. A call whose answer was lost is `unknown`: it may take effect at any time after its start,
 * also long after the caller gave up, so its `endedAt` is Infinity.
 */
export type RecordedCall =
  | {
      readonly do: 'acquire'
      readonly lockMs: number
      readonly outcome: AcquireOutcome | { readonly kind: 'unknown' }
    }
  | {
      readonly do: 'save'
      readonly token: string
      readonly record: string
      readonly outcome: SaveOutcome['kind'] | 'unknown'
    }
  | { readonly do: 'remove'; readonly existed: boolean | 'unknown' }
  | { readonly do: 'release'; readonly token: string; readonly existed: boolean | 'unknown' }
  | {
      readonly do: 'extend'
      readonly token: string
      readonly lockMs: number
      readonly outcome: ExtendOutcome['kind'] | 'unknown'
    }
  | { readonly do: 'fetch'; readonly outcome: FetchOutcome }

/** Call in a history. */
export type HistoryCall = Span & { readonly key: string } & RecordedCall

/** Move of the tenant's clock; moves do not overlap. */
export interface ClockMove extends Span {
  readonly nowMs: number
}

/** History of concurrent callers of one tenant. */
export interface History {
  readonly calls: readonly HistoryCall[]
  /** The first entry is the clock's start. */
  readonly clock: readonly ClockMove[]
  /** True if the clock runs between its moves: times are milliseconds, and `nowMs` of a move is the clock at time 0. Default: it stands. */
  readonly clockRuns?: boolean
}

type CallOf<Do extends RecordedCall['do']> = Extract<HistoryCall, { do: Do }>

/** Lock, with all calls answered with its token. */
interface Lock extends Span {
  readonly key: string
  readonly token: string
  readonly fence: number
  readonly takenOver: boolean
  /** Acquisition, re-entries and extensions, each of which resets the lock's end. */
  readonly holds: readonly (Span & { readonly lockMs: number })[]
}

/**
 * Checks a history against the guarantees of records, and returns one line per violation. Accepts every history that is explained by
 * some order of the calls.
 */
export function findViolations(history: History): string[] {
  const locks = locksOf(history)
  const locksByKey = Map.groupBy(locks, (lock) => lock.key)
  const callsByKey = Map.groupBy(history.calls, (call) => call.key)
  return [
    ...fencesGrow(locks),
    ...[...callsByKey].flatMap(([key, calls]) => {
      const ofKey = (locksByKey.get(key) ?? []).sort((a, b) => a.fence - b.fence)
      return [
        ...runsAreAnnounced(ofKey, calls),
        ...locksDoNotOverlap(ofKey, calls, history),
        ...lateHoldersAreRefused(ofKey, calls),
        ...recordsEndRuns(ofKey, calls),
        ...oneResultWins(calls),
        ...readsAreOfSaves(calls),
      ]
    }),
  ]
}

function isCall<Do extends RecordedCall['do']>(name: Do) {
  return (call: HistoryCall): call is CallOf<Do> => call.do === name
}

function locksOf({ calls }: History): Lock[] {
  const locks = new Map<string, Lock>()
  for (const call of calls.filter(isCall('acquire'))) {
    if (call.outcome.kind !== 'locked') continue
    const { lockToken: token, fence, takenOver } = call.outcome
    const known = locks.get(token)
    const { key, startedAt, endedAt } = call
    locks.set(token, {
      key,
      token,
      fence,
      takenOver,
      // The lock was granted at some time between the start and the end of the first call.
      startedAt: Math.min(startedAt, known?.startedAt ?? startedAt),
      endedAt: Math.min(endedAt, known?.endedAt ?? endedAt),
      holds: [...(known?.holds ?? []), call, ...(known ? [] : extensionsOf(token, calls))],
    })
  }
  return [...locks.values()]
}

function extensionsOf(token: string, calls: readonly HistoryCall[]) {
  return calls.filter(isCall('extend')).filter((call) => call.token === token && call.outcome === 'extended')
}

/** Returns whether an interval may overlap the time from the start of `from` to the end of `to`. */
function between(span: Span, from: Span, to: Span): boolean {
  return span.endedAt > from.startedAt && span.startedAt < to.endedAt
}

/** Returns whether a record may have been removed in between, as do the next two functions for a save and a release. */
function wasRemoved(calls: readonly HistoryCall[], from: Span, to: Span): boolean {
  return calls.some((call) => call.do === 'remove' && call.existed !== false && between(call, from, to))
}

function wasSaved(calls: readonly HistoryCall[], from: Span, to: Span): boolean {
  return calls.some((call) => call.do === 'save' && maySave(call) && between(call, from, to))
}

function maySave({ outcome }: CallOf<'save'>): boolean {
  return outcome === 'saved' || outcome === 'unknown'
}

function wasReleased(calls: readonly HistoryCall[], lock: Lock, to: Span): boolean {
  return calls.some(
    (call) =>
      call.do === 'release' &&
      call.existed !== false &&
      call.token === lock.token &&
      call.startedAt < to.endedAt,
  )
}

function fencesGrow(locks: readonly Lock[]): string[] {
  const found: string[] = []
  for (const one of locks) {
    for (const other of locks) {
      if (one !== other && one.fence === other.fence)
        found.push(`fence: ${one.token} and ${other.token} share one`)
      if (one.endedAt < other.startedAt && one.fence >= other.fence) {
        found.push(`fence: ${other.token} came after ${one.token} with a smaller one`)
      }
    }
  }
  return found
}

/** Pairs of a lock and the next one of its key. Fences give the order in which locks were granted. */
function successions(locks: readonly Lock[]): [Lock, Lock][] {
  return locks.slice(1).map((lock, index) => [locks[index] as Lock, lock])
}

function runsAreAnnounced(locks: readonly Lock[], calls: readonly HistoryCall[]): string[] {
  const first = locks[0]
  const mayFollow = calls.some(
    (call) =>
      call.do === 'acquire' && call.outcome.kind === 'unknown' && call.startedAt < (first?.endedAt ?? 0),
  )
  const vain = first?.takenOver && !mayFollow ? [`announced: ${first.token} took over from nobody`] : []
  return vain.concat(
    successions(locks)
      .filter(([before, after]) => {
        if (after.takenOver) return false
        if (wasReleased(calls, before, after) && !before.takenOver) return false
        return !(wasSaved(calls, before, after) && wasRemoved(calls, before, after))
      })
      .map(([before, after]) => `unannounced: ${after.token} runs after ${before.token} without a warning`),
  )
}

function locksDoNotOverlap(
  locks: readonly Lock[],
  calls: readonly HistoryCall[],
  history: History,
): string[] {
  return successions(locks)
    .filter(([before, after]) => {
      if (wasReleased(calls, before, after)) return false
      if (wasSaved(calls, before, after) && wasRemoved(calls, before, after)) return false
      const endMs = Math.min(
        ...before.holds.map((hold) => Math.min(...timesWithin(history, hold)) + hold.lockMs),
      )
      return Math.max(...timesWithin(history, after)) < endMs
    })
    .map(([before, after]) => `two owners: ${after.token} got the lock while ${before.token} held it`)
}

/** Times of the clock during a call, with the earliest and the latest. */
function timesWithin({ clock, clockRuns = false }: History, span: Span): number[] {
  const moves = clock.filter((move, index) => {
    const goneAt = clock[index + 1]?.endedAt ?? Number.POSITIVE_INFINITY
    return move.startedAt < span.endedAt && goneAt > span.startedAt
  })
  if (!clockRuns) return moves.map(({ nowMs }) => nowMs)
  // Considers the millisecond before as well, since the store truncates fractions of a millisecond.
  return moves.flatMap(({ nowMs }) => [nowMs + span.startedAt - 1, nowMs + span.endedAt])
}

function lateHoldersAreRefused(locks: readonly Lock[], calls: readonly HistoryCall[]): string[] {
  return calls.flatMap((call) => {
    if (!actedAsOwner(call)) return []
    const own = locks.find((lock) => lock.token === call.token)
    const later = locks.find((lock) => own && lock.fence > own.fence && lock.endedAt < call.startedAt)
    return later ? [`late: ${call.token} did ${call.do} after ${later.token} had the lock`] : []
  })
}

function actedAsOwner(call: HistoryCall): call is CallOf<'save' | 'release' | 'extend'> {
  if (call.do === 'save') return call.token !== '' && call.outcome === 'saved'
  return (
    (call.do === 'release' && call.existed === true) || (call.do === 'extend' && call.outcome === 'extended')
  )
}

function recordsEndRuns(locks: readonly Lock[], calls: readonly HistoryCall[]): string[] {
  return savesOf(calls).flatMap((save) =>
    locks
      .filter((lock) => lock.startedAt > save.endedAt && !wasRemoved(calls, save, lock))
      .map((lock) => `finished: ${lock.token} runs although ${save.record} was saved`),
  )
}

function savesOf(calls: readonly HistoryCall[]): CallOf<'save'>[] {
  return calls.filter(isCall('save')).filter((call) => call.outcome === 'saved')
}

function oneResultWins(calls: readonly HistoryCall[]): string[] {
  const saves = savesOf(calls)
  return saves.flatMap((one, index) =>
    saves
      .slice(index + 1)
      .filter((other) => {
        const both = {
          startedAt: Math.min(one.startedAt, other.startedAt),
          endedAt: Math.max(one.endedAt, other.endedAt),
        }
        return other.record !== one.record && !wasRemoved(calls, both, both)
      })
      .map((other) => `two results: ${one.record} and ${other.record} were both saved`),
  )
}

function readsAreOfSaves(calls: readonly HistoryCall[]): string[] {
  const saves = savesOf(calls)
  return calls.flatMap((call) => {
    if (call.do !== 'fetch' && call.do !== 'acquire') return []
    const { outcome } = call
    if (outcome.kind === 'none') {
      const missed = saves.find((save) => save.endedAt < call.startedAt && !wasRemoved(calls, save, call))
      return missed ? [`read: ${missed.record} was not found`] : []
    }
    if (outcome.kind !== 'hit') return []
    const own = calls
      .filter(isCall('save'))
      .filter((save) => maySave(save) && save.record === outcome.record && save.startedAt < call.endedAt)
    if (own.length === 0) return [`read: ${outcome.record} was found, which nobody saved`]
    const lastAt = Math.max(...own.map((save) => save.endedAt))
    const stale = saves.some(
      (save) => save.record !== outcome.record && save.startedAt > lastAt && save.endedAt < call.startedAt,
    )
    return stale ? [`read: ${outcome.record} was found after another one had taken its place`] : []
  })
}
