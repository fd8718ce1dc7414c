import type { AttemptPlace } from '#internal/events/index.ts'
import { parseReplayId, type ReplayId } from '#internal/replays/index.ts'

/** Returns the name of an attempt in paths, forms and anchors: delivery cycle and number, such as `1-3`. */
export function attemptName({ cycle, attempt }: AttemptPlace): string {
  return `${cycle}-${attempt}`
}

export function parseAttemptName(name: string | undefined): AttemptPlace | undefined {
  const [, cycle, attempt] = /^(\d{1,6})-(\d{1,6})$/.exec(name ?? '') ?? []
  return cycle === undefined ? undefined : { cycle: Number(cycle), attempt: Number(attempt) }
}

export function attemptTitle({ cycle, attempt }: AttemptPlace, event: { readonly cycle: number }): string {
  return event.cycle === 1 ? `Attempt ${attempt}` : `Attempt ${attempt} of delivery cycle ${cycle}`
}

/** Replays that began delivery cycles of an event, by the number of the cycle. */
export type CycleOrigins = ReadonlyMap<number, ReplayId>

/** Maximum number of replays in an address: 50 replays take 1.7 KB. The latest replays are kept. */
const namedMax = 50

/** Formats the replays of an event for the address of live updates. `3!…` means: read while the event was in delivery cycle 3. */
export function originsText(cycle: number, origins: CycleOrigins): string {
  const latest = [...origins].toSorted(([a], [b]) => a - b).slice(-namedMax)
  return `${cycle}!${latest.map(([nth, id]) => `${nth}.${id}`).join('!')}`
}

export function parseOrigins(text: string | undefined, cycle: number): CycleOrigins | undefined {
  const [known, ...named] = text?.split('!') ?? []
  if (known !== String(cycle) || named.length > namedMax) return undefined
  return new Map(
    named.flatMap((each) => {
      const [nth, idText = ''] = each.split('.')
      const id = parseReplayId(idText)
      return id === undefined ? [] : [[Number(nth), id] as const]
    }),
  )
}
