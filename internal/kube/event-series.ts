import { cleanNote } from './event-note.ts'

/** Which object an event is about. */
export interface ObjectReference {
  readonly apiVersion: string
  readonly kind: string
  /** Absent for objects that belong to the whole cluster. */
  readonly namespace?: string
  readonly name: string
  readonly uid?: string
}

/** Something that happened to an object. What repeats must repeat word for word to be counted as one. */
export interface Occurrence {
  readonly regarding: ObjectReference
  readonly type: 'Normal' | 'Warning'
  /** Why, in one CamelCase word. */
  readonly reason: string
  /** What was being done, in one CamelCase word. */
  readonly action: string
  /** For people; no secrets. */
  readonly note: string
}

/** One event and how often it happened. */
export interface EventSeries {
  readonly key: string
  readonly occurrence: Occurrence
  readonly firstAtMs: number
  lastAtMs: number
  count: number
  /** As the API server has it; 0 is not at all. */
  sentCount: number
  sentAtMs: number
  failures: number
  /** The event's name in the API; another one after it was forgotten there. */
  name: string
}

/** Bounds of what is remembered and written. */
export interface SeriesBounds {
  /** Series at once. The one not seen for longest goes first; default 2 000. */
  readonly seriesMax: number
  /** Different events of one object at once; more are dropped. Default 20. */
  readonly perObjectMax: number
  /** After so long a silence a repetition is a new event; default 10 min. */
  readonly silentMsMax: number
  /** A count is written at most this often; default 30 s. */
  readonly countEveryMs: number
}

/** The defaults. */
export const seriesBounds: SeriesBounds = {
  seriesMax: 2000,
  perObjectMax: 20,
  silentMsMax: 600_000,
  countEveryMs: 30_000,
}

/** Folds what happens into series. Holds no connection and no timer: the time comes in. */
export class EventBook {
  readonly #bounds: SeriesBounds
  readonly #newName: (occurrence: Occurrence) => string
  /** By key, the one seen last at the end. */
  readonly #series = new Map<string, EventSeries>()
  readonly #perObject = new Map<string, number>()
  #dropped = 0

  constructor(bounds: SeriesBounds, newName: (occurrence: Occurrence) => string) {
    this.#bounds = bounds
    this.#newName = newName
  }

  /** How many occurrences were not written and never will be. */
  get dropped(): number {
    return this.#dropped
  }

  /** Takes one occurrence. */
  add(occurrence: Occurrence, nowMs: number): void {
    const clean = { ...occurrence, note: cleanNote(occurrence.note) }
    const key = keyOf(clean)
    const known = this.#series.get(key)
    if (known && nowMs - known.lastAtMs < this.#bounds.silentMsMax) {
      known.count += 1
      known.lastAtMs = nowMs
      this.#series.delete(key)
      this.#series.set(key, known)
      return
    }
    if (known) this.drop(known)
    this.#forgetSilent(nowMs)
    const object = objectOf(clean)
    const ofObject = this.#perObject.get(object) ?? 0
    if (ofObject >= this.#bounds.perObjectMax) {
      this.#dropped += 1
      return
    }
    const oldest =
      this.#series.size >= this.#bounds.seriesMax ? this.#series.values().next().value : undefined
    if (oldest) this.drop(oldest)
    this.#perObject.set(object, (this.#perObject.get(object) ?? 0) + 1)
    this.#series.set(key, {
      key,
      occurrence: clean,
      firstAtMs: nowMs,
      lastAtMs: nowMs,
      count: 1,
      sentCount: 0,
      sentAtMs: 0,
      failures: 0,
      name: this.#newName(clean),
    })
  }

  /** What is to be written now, new events first, at most `max`; with `all` also counts that are not due yet. */
  due(nowMs: number, max: number, all = false): EventSeries[] {
    const fresh: EventSeries[] = []
    const counts: EventSeries[] = []
    for (const series of this.#series.values()) {
      if (series.sentCount === 0) fresh.push(series)
      else if (
        series.sentCount < series.count &&
        (all || nowMs - series.sentAtMs >= this.#bounds.countEveryMs)
      )
        counts.push(series)
    }
    return [...fresh, ...counts].slice(0, max)
  }

  /** The API server has the series as it was when `count` was read. */
  sent(series: EventSeries, count: number, nowMs: number): void {
    series.sentCount = count
    series.sentAtMs = nowMs
    series.failures = 0
  }

  /** The API server has forgotten the event: it is written anew, under another name. */
  lost(series: EventSeries): void {
    series.sentCount = 0
    series.name = this.#newName(series.occurrence)
  }

  /** Forgets a series; what of it is not written counts as dropped. */
  drop(series: EventSeries): void {
    if (!this.#series.delete(series.key)) return
    this.#dropped += series.count - series.sentCount
    const object = objectOf(series.occurrence)
    const left = (this.#perObject.get(object) ?? 1) - 1
    if (left > 0) this.#perObject.set(object, left)
    else this.#perObject.delete(object)
  }

  #forgetSilent(nowMs: number): void {
    for (const series of this.#series.values()) {
      if (nowMs - series.lastAtMs < this.#bounds.silentMsMax) return
      this.drop(series)
    }
  }
}

function keyOf({ regarding, type, reason, action, note }: Occurrence): string {
  const { kind, namespace, name, uid } = regarding
  return JSON.stringify([kind, namespace, name, uid, type, reason, action, note])
}

function objectOf({ regarding }: Occurrence): string {
  return JSON.stringify([regarding.kind, regarding.namespace, regarding.name])
}
