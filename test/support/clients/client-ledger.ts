/** An operation, and what its caller was told. */
export interface ClientOperation {
  readonly id: string
  readonly key: string
  readonly tookMs: number
  /** Undefined if the process of the caller died. */
  readonly told: { readonly outcome: string; readonly by?: string | undefined } | undefined
}

/** An effect in the callers' database: the operation whose work made it. */
export interface Effect {
  readonly key: string
  readonly by: string
}

/** Counts of operations by their results. All but the first five figures must be zero. */
export interface ClientCounts {
  readonly operations: number
  readonly ran: number
  readonly replayed: number
  /** Operations with another outcome, or an exception. */
  readonly other: number
  readonly died: number
  /** Effects beyond the first of each key. */
  readonly twice: number
  /** Operations whose caller was told that they ran, or were replayed, although their key has no effect. */
  readonly lost: number
  /** Callers that were told the result of an operation without an effect, while another one has it. */
  readonly different: number
  /** Operations that took longer than their bounds. */
  readonly late: number
  /** Keys without an effect. */
  readonly undecided: number
}

/** Compares what callers were told with the effects of their keys. @param msMax bound of an operation */
export function countOperations(
  own: readonly ClientOperation[],
  effects: readonly Effect[],
  msMax: number,
): ClientCounts {
  const keys = new Set(own.map(({ key }) => key))
  const byKey = Map.groupBy(
    effects.filter(({ key }) => keys.has(key)),
    ({ key }) => key,
  )
  const told = (outcome: string) => own.filter((each) => each.told?.outcome === outcome).length
  const died = own.filter((each) => each.told === undefined).length
  const known = own.filter(({ told: each }) => each?.outcome === 'ran' || each?.outcome === 'replayed')
  const [ran, replayed] = [told('ran'), told('replayed')]
  return {
    operations: own.length,
    ran,
    replayed,
    other: own.length - ran - replayed - died,
    died,
    twice: [...byKey.values()].reduce((sum, { length }) => sum + length - 1, 0),
    lost: known.filter(({ key }) => !byKey.has(key)).length,
    different: known.filter(({ key, told: each }) => {
      const made = byKey.get(key)
      return made !== undefined && !made.some(({ by }) => by === each?.by)
    }).length,
    late: own.filter(({ tookMs }) => tookMs > msMax).length,
    undecided: [...keys].filter((key) => !byKey.has(key)).length,
  }
}

/** Returns counts as a line of a table. */
export function lineOfCounts(title: string, counts: ClientCounts): string {
  const figures = Object.entries(counts).map(([name, count]) => `${name} ${count}`)
  return `${title}: ${figures.join(', ')}`
}
