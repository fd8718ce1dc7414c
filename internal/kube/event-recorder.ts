import { type Clock, randomToken, systemClock } from '#internal/base/index.ts'
import { superviseLoop } from '#internal/process/index.ts'
import type { KubeClient } from './client.ts'
import {
  EventBook,
  type EventSeries,
  type Occurrence,
  type SeriesBounds,
  seriesBounds,
} from './event-series.ts'
import type { KubeFailure, KubeResult } from './failure.ts'
import { formatMicroTime } from './micro-time.ts'
import { type KubeObject, resource } from './resource.ts'

/** An event as the API server keeps it. */
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

/** Events. */
export const kubeEvents = resource<KubeEvent>({
  apiVersion: 'events.k8s.io/v1',
  kind: 'Event',
  plural: 'events',
})

/** What a recorder is made of. */
export interface EventRecorderOptions {
  readonly client: KubeClient
  /** Who says so, such as `latchkey.dev/operator`. */
  readonly controller: string
  /** Which of them, such as the pod's name. */
  readonly instance: string
  /** Hears of events that could not be written; they are for people and nothing depends on them. Must not throw. */
  readonly onTrouble: (failure: KubeFailure) => void
  readonly bounds?: Partial<SeriesBounds>
  readonly clock?: Clock
}

/** Writes events about objects, for `kubectl describe` and `kubectl events`. */
export interface EventRecorder {
  /** Takes an occurrence, to be written at most about a second later. Never throws, never waits. */
  record(occurrence: Occurrence): void
  /** Writes what is due, at most 20 events. Never rejects. */
  flush(): Promise<void>
  /** How many occurrences were lost to the bounds or to a server that would not take them. */
  dropped(): number
  /** Writes what is left, as far as one round of calls goes, and ends. Repeating it is harmless; never rejects. */
  stop(): Promise<void>
}

/** So many calls a second at most: events are the first thing to give way on a busy server. */
const callsPerTurn = 20
const turnMs = 1000
const triesMax = 5
/** What the server decided about an event will not change by asking again. */
const final = new Set<KubeFailure['kind']>([
  'badRequest',
  'forbidden',
  'invalid',
  'notFound',
  'conflict',
  'gone',
])

/** Starts a recorder. Repetitions of one occurrence become one event with a count. */
export function startEventRecorder(options: EventRecorderOptions): EventRecorder {
  const { clock = systemClock, bounds } = options
  const book = new EventBook({ ...seriesBounds, ...bounds }, nameOf)
  const write = (all: boolean) => writeDue({ options, book, clock }, all)
  const loop = superviseLoop({
    name: 'events',
    intervalMs: turnMs,
    turnMsMax: 30_000,
    runOnce: () => write(false),
    // Calls give their failures as values; only a bug would get here, and it must not end the recorder.
    onError: () => undefined,
  })
  return {
    record(occurrence) {
      book.add(occurrence, clock.now())
    },
    flush: () => loop.runOnce().catch(() => undefined),
    dropped: () => book.dropped,
    async stop() {
      await loop.stop()
      await write(true)
    },
  }
}

interface Recording {
  readonly options: EventRecorderOptions
  readonly book: EventBook
  readonly clock: Clock
}

async function writeDue(recording: Recording, all: boolean): Promise<void> {
  const due = recording.book.due(recording.clock.now(), callsPerTurn, all)
  await Promise.all(due.map((series) => writeSeries(recording, series)))
}

async function writeSeries({ options, book, clock }: Recording, series: EventSeries): Promise<void> {
  const { count } = series
  const isNew = series.sentCount === 0
  const written = isNew ? await create(options, series) : await raise(options, series)
  if (written.kind === 'ok' || written.kind === 'alreadyExists') {
    book.sent(series, count, clock.now())
    return
  }
  // Events live an hour by default; one that goes on for longer is written anew.
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

/** Events about what has no namespace are kept in `default`: the server takes them nowhere else. */
function namespaceOf({ occurrence }: EventSeries): string {
  return occurrence.regarding.namespace ?? 'default'
}

function nameOf({ regarding }: Occurrence): string {
  const random = randomToken(9)
    .toLowerCase()
    .replaceAll(/[^a-z0-9]/g, '0')
  // Some kinds allow names that are none for an event, such as `system:node`.
  const name = regarding.name
    .toLowerCase()
    .slice(0, 200)
    .replaceAll(/[^a-z0-9]+/g, '-')
  return `${name.replaceAll(/^-|-$/g, '')}.${random}`
}
