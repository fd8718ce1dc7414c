import { type Clock, randomToken, systemClock } from '#internal/base/index.ts'
import { superviseLoop } from '#internal/process/index.ts'
import type { KubeClient } from './client.ts'
import type { KubeFailure, KubeResult } from './failure.ts'
import { formatMicroTime } from './lease.ts'
import { type KubeObject, resource } from './resource.ts'

export interface KubeEvent extends KubeObject {
  readonly eventTime?: string
  readonly reportingController?: string
  readonly reportingInstance?: string
  readonly regarding?: object
  readonly type?: string
  readonly reason?: string
  readonly action?: string
  readonly note?: string
  readonly series?: { readonly count: number; readonly lastObservedTime: string }
}

/** The Kubernetes resource of events. */
export const kubeEvents = resource<KubeEvent>({
  apiVersion: 'events.k8s.io/v1',
  kind: 'Event',
  plural: 'events',
})

export interface EventRecorderOptions {
  readonly client: KubeClient
  /** Such as `latchkey.dev/operator`. */
  readonly controller: string
  readonly instance: string
  /** Must not throw. */
  readonly onTrouble: (failure: KubeFailure) => void
  readonly bounds?: Partial<typeof seriesBounds>
  readonly clock?: Clock
}

/** Maximum number of calls per second: low, because events have the lowest priority on a busy server. */
const callsPerTurn = 20
const turnMs = 1000
const triesMax = 5
/** Failures that are not retried, because the API server would refuse the call again. */
const final = new Set<KubeFailure['kind']>([
  'badRequest',
  'forbidden',
  'invalid',
  'notFound',
  'conflict',
  'gone',
])

/**
 * Starts a recorder of events for `kubectl describe` and `kubectl events`. No other component depends on these events. Equal occurrences
 * become one event with a count.
 */
export function startEventRecorder(options: EventRecorderOptions) {
  const { clock = systemClock, bounds } = options
  const book = new EventBook({ ...seriesBounds, ...bounds }, nameOf)
  const write = (all: boolean) => writeDue({ options, book, clock }, all)
  const loop = superviseLoop({
    name: 'events',
    intervalMs: turnMs,
    turnMsMax: 30_000,
    runOnce: () => write(false),
    // Ignores the exception, so that the recorder continues. Only a bug can cause one, because failed calls are returned as values.
    onError: () => undefined,
  })
  return {
    /** Records an occurrence, which is written within about a second. Never throws and never blocks. */
    record(occurrence: Occurrence): void {
      book.add(occurrence, clock.now())
    },
    /** Writes at most 20 due events. Never rejects. */
    flush: () => loop.runOnce().catch(() => undefined),
    /** Number of occurrences dropped at a limit or refused by the server. */
    dropped: () => book.dropped,
    /** Stops the recorder after one last write of at most 20 events. Idempotent; never rejects. */
    async stop(): Promise<void> {
      await loop.stop()
      await write(true)
    },
  }
}

async function writeDue(
  recording: { readonly options: EventRecorderOptions; readonly book: EventBook; readonly clock: Clock },
  all: boolean,
): Promise<void> {
  const due = recording.book.due(recording.clock.now(), callsPerTurn, all)
  await Promise.all(due.map((series) => writeSeries(recording, series)))
}

async function writeSeries(
  { options, book, clock }: Parameters<typeof writeDue>[0],
  series: EventSeries,
): Promise<void> {
  const { count } = series
  const isNew = series.sentCount === 0
  const written = isNew ? await create(options, series) : await raise(options, series)
  if (written.kind === 'ok' || written.kind === 'alreadyExists') {
    book.sent(series, count, clock.now())
    return
  }
  // The API server has deleted the event (by default after an hour), so the next write creates it again.
  if (!isNew && written.kind === 'notFound') {
    book.lost(series)
    return
  }
  series.failures += 1
  if (!final.has(written.kind) && series.failures < triesMax) return
  book.drop(series)
  options.onTrouble(written)
}

function create(options: EventRecorderOptions, series: EventSeries): Promise<KubeResult<KubeEvent>> {
  const { regarding, type, reason, action, note } = series.occurrence
  return options.client.create(kubeEvents, {
    metadata: { name: series.name, namespace: namespaceOf(series) },
    eventTime: formatMicroTime(series.firstAtMs),
    reportingController: options.controller,
    reportingInstance: options.instance.slice(0, 128),
    regarding,
    type,
    reason,
    action,
    note,
    ...(series.count > 1 && { series: countOf(series) }),
  })
}

function raise(options: EventRecorderOptions, series: EventSeries): Promise<KubeResult<KubeEvent>> {
  const place = { namespace: namespaceOf(series), name: series.name }
  return options.client.mergePatch(kubeEvents, place, { series: countOf(series) })
}

function countOf({ count, lastAtMs }: EventSeries) {
  return { count, lastObservedTime: formatMicroTime(lastAtMs) }
}

/** Returns the namespace of the object, or `default`, which the API requires for events about cluster-scoped objects. */
function namespaceOf({ occurrence }: EventSeries): string {
  return occurrence.regarding.namespace ?? 'default'
}

function nameOf({ regarding }: Occurrence): string {
  const random = randomToken(9)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '0')
  // Replaces characters that some kinds allow in names, but events do not, such as the colon of `system:node`.
  const name = regarding.name
    .toLowerCase()
    .slice(0, 200)
    .replaceAll(/[^a-z0-9]+/g, '-')
  return `${name.replaceAll(/^-|-$/g, '')}.${random}`
}

/** An occurrence to report. Equal occurrences are counted as one event. */
export interface Occurrence {
  readonly regarding: {
    readonly apiVersion: string
    readonly kind: string
    readonly namespace?: string
    readonly name: string
    readonly uid?: string
  }
  readonly type: 'Normal' | 'Warning'
  /** One CamelCase word. */
  readonly reason: string
  /** One CamelCase word. */
  readonly action: string
  /** Must not contain secrets. */
  readonly note: string
}

export interface EventSeries {
  readonly key: string
  readonly occurrence: Occurrence
  readonly firstAtMs: number
  lastAtMs: number
  count: number
  /** 0 before the first write. */
  sentCount: number
  sentAtMs: number
  failures: number
  name: string
}

export const seriesBounds = {
  /** At the maximum, a new series evicts the least recently seen one. */
  seriesMax: 2000,
  /** Maximum number of series per object. Occurrences that would start a further series are dropped. */
  perObjectMax: 20,
  /** After this time without an occurrence, the next one starts a new event. */
  silentMsMax: 600_000,
  /** Minimum interval between two writes of a count. */
  countEveryMs: 30_000,
}

/** Aggregates occurrences into series. Performs no I/O; callers pass the time as an argument. */
export class EventBook {
  readonly #bounds: typeof seriesBounds
  readonly #newName: (occurrence: Occurrence) => string
  /** Series by key, least recently seen first. */
  readonly #series = new Map<string, EventSeries>()
  readonly #perObject = new Map<string, number>()
  #dropped = 0

  constructor(bounds: typeof seriesBounds, newName: (occurrence: Occurrence) => string) {
    this.#bounds = bounds
    this.#newName = newName
  }

  get dropped(): number {
    return this.#dropped
  }

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

  /** Lists series without an event first. A changed count is due `countEveryMs` after the last write, or immediately with `all`. */
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

  sent(series: EventSeries, count: number, nowMs: number): void {
    series.sentCount = count
    series.sentAtMs = nowMs
    series.failures = 0
  }

  /** Creates the event again under a new name, because the API server has deleted it. */
  lost(series: EventSeries): void {
    series.sentCount = 0
    series.name = this.#newName(series.occurrence)
  }

  /** Removes a series. Its occurrences that were not written count as dropped. */
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

/** Limit of the Kubernetes API. */
const noteBytesMax = 1024

const secretShapes: readonly RegExp[] = [
  /-----BEGIN [A-Z ]+-----[\s\S]*?(-----END [A-Z ]+-----|$)/g,
  /\b(?:Bearer|Basic)\s+[^\s,;]+/gi,
  /\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/g,
  /\b(?:lk|whsec|sk|rk|shpss|shpat|ghp|ghs|github_pat)_[\w+/=-]{8,}/g,
  /(?<=\/\/)[^/\s:@]*:[^/\s@]+(?=@)/g,
]

/** Masks text that looks like a secret, as a second line of defence: callers must not pass secrets. */
export function cleanNote(note: string): string {
  const masked = secretShapes.reduce((text, shape) => text.replace(shape, '[secret]'), note)
  if (Buffer.byteLength(masked) <= noteBytesMax) return masked
  const { read } = new TextEncoder().encodeInto(masked, new Uint8Array(noteBytesMax - 3))
  return `${masked.slice(0, read)}…`
}
