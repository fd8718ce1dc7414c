import type { AttemptPlace } from '#internal/events/index.ts'

/** Returns the name of an attempt in paths, forms and anchors: its delivery cycle and number, such as `1-3`. */
export function attemptName({ cycle, attempt }: AttemptPlace): string {
  return `${cycle}-${attempt}`
}

/** Parses a name of `attemptName`. Undefined for any other text. */
export function parseAttemptName(name: string | undefined): AttemptPlace | undefined {
  const [, cycle, attempt] = /^(\d{1,6})-(\d{1,6})$/.exec(name ?? '') ?? []
  return cycle === undefined ? undefined : { cycle: Number(cycle), attempt: Number(attempt) }
}

/** Returns the title of an attempt; of an event with several delivery cycles, with its cycle. */
export function attemptTitle({ cycle, attempt }: AttemptPlace, event: { readonly cycle: number }): string {
  return event.cycle === 1 ? `Attempt ${attempt}` : `Attempt ${attempt} of delivery cycle ${cycle}`
}
