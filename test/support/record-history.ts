import type { AcquireOutcome, ExtendOutcome, FetchOutcome, SaveOutcome } from '#internal/records/record.ts'

/** Logical times of a call and its answer, from one increasing counter. */
interface Span {
  readonly startedAt: number
  readonly endedAt: number
}

/** Call and result. Each run saves a unique body. */
export type RecordedCall =
  | { readonly do: 'acquire'; readonly lockMs: number; readonly outcome: AcquireOutcome }
  | {
      readonly do: 'save'
      readonly token: string
      readonly record: string
      readonly outcome: SaveOutcome['kind']
    }
  | { readonly do: 'remove'; readonly existed: boolean }
  | { readonly do: 'release'; readonly token: string; readonly existed: boolean }
  | {
      readonly do: 'extend'
      readonly token: string
      readonly lockMs: number
      readonly outcome: ExtendOutcome['kind']
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
  const keys = [...new Set(history.calls.map((call) => call.key))]
  return [
    ...fencesGrow(locks),
    ...keys.flatMap((key) => {
      const calls = history.calls.filter((call) => call.key === key)
      const ofKey = locks.filter((lock) => lock.key === key).sort((a, b) => a.fence - b.fence)
      return [
        ...runsAreAnnounced(ofKey, calls),
        ...locksDoNotOverlap(ofKey, calls, history.clock),
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
      // The lock was granted after the first call began and before the first call ended.
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

function wasRemoved(calls: readonly HistoryCall[], from: Span, to: Span): boolean {
  return calls.some((call) => call.do === 'remove' && call.existed && between(call, from, to))
}

function wasSaved(calls: readonly HistoryCall[], from: Span, to: Span): boolean {
  return calls.some((call) => call.do === 'save' && call.outcome === 'saved' && between(call, from, to))
}

function wasReleased(calls: readonly HistoryCall[], lock: Lock, to: Span): boolean {
  return calls.some(
    (call) =>
      call.do === 'release' && call.existed && call.token === lock.token && call.startedAt < to.endedAt,
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
  const vain = first?.takenOver ? [`announced: ${first.token} took over from nobody`] : []
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
  clock: readonly ClockMove[],
): string[] {
  return successions(locks)
    .filter(([before, after]) => {
      if (wasReleased(calls, before, after)) return false
      if (wasSaved(calls, before, after) && wasRemoved(calls, before, after)) return false
      const endMs = Math.min(
        ...before.holds.map((hold) => Math.min(...timesWithin(clock, hold)) + hold.lockMs),
      )
      return Math.max(...timesWithin(clock, after)) < endMs
    })
    .map(([before, after]) => `two owners: ${after.token} got the lock while ${before.token} held it`)
}

/** Range of the clock during a call. */
function timesWithin(clock: readonly ClockMove[], span: Span): number[] {
  return clock
    .filter((move, index) => {
      const goneAt = clock[index + 1]?.endedAt ?? Number.POSITIVE_INFINITY
      return move.startedAt < span.endedAt && goneAt > span.startedAt
    })
    .map((move) => move.nowMs)
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
  return (call.do === 'release' && call.existed) || (call.do === 'extend' && call.outcome === 'extended')
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
    const own = saves.filter((save) => save.record === outcome.record && save.startedAt < call.endedAt)
    if (own.length === 0) return [`read: ${outcome.record} was found, which nobody saved`]
    const lastAt = Math.max(...own.map((save) => save.endedAt))
    const stale = saves.some(
      (save) => save.record !== outcome.record && save.startedAt > lastAt && save.endedAt < call.startedAt,
    )
    return stale ? [`read: ${outcome.record} was found after another one had taken its place`] : []
  })
}
