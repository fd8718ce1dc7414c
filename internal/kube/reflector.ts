import { type BackoffBounds, backoffMs } from '#internal/base/index.ts'
import type { Health, Heartbeat } from '#internal/telemetry/index.ts'
import { createKubeClient, type Selection } from './client.ts'
import type { KubeFailure } from './failure.ts'
import {
  type ObjectCache,
  type ObjectChange,
  OwnedObjectCache,
  withoutManagedFields,
} from './object-cache.ts'
import type { KubeObject, Resource } from './resource.ts'
import { systemTiming, type Timing } from './timing.ts'
import type { Transport } from './transport.ts'
import { type WatchEnd, type WatchEvent, watchOnce } from './watch.ts'

/** What went wrong around a reflector; it goes on in any case. */
export type ReflectorTrouble =
  | { readonly kind: 'handler'; readonly key: string; readonly error: unknown }
  /** `failures` in a row; the cache stays as it was. */
  | { readonly kind: 'sync'; readonly failure: KubeFailure; readonly failures: number }
  /** The connection of a watch was dead. */
  | { readonly kind: 'stalled' }

/** What a reflector is made of. */
export interface ReflectorOptions<T extends KubeObject> {
  readonly name: string
  readonly transport: Transport
  readonly of: Resource<T>
  readonly selection: Selection
  /** Hears of each change, in order, from the first list on. What it throws or rejects with goes to `onTrouble`. */
  readonly onChange: (change: ObjectChange<T>) => unknown
  /** Must not throw. */
  readonly onTrouble: (trouble: ReflectorTrouble) => void
  /** What of an object is worth its memory; default all but `managedFields`. Name, uid and resourceVersion must stay. */
  readonly keep?: (object: T) => T
  /** More objects than this are a failure; default 100 000. */
  readonly objectsMax?: number
  readonly pageSize?: number
  /** A watch lasts a time in here, drawn anew for each; default 300 to 600. */
  readonly watchSeconds?: { readonly min: number; readonly max: number }
  /**
   * Lists anew when the server ends a watch before its time; default false. For custom resources: that is how a change of their
   * definition shows, under whose old form objects may have been told until then.
   */
  readonly listsWhenCutShort?: boolean
  /** Pauses after failures; default 800 ms to 30 s. A longer wish of the server is heeded. */
  readonly backoff?: BackoffBounds
  readonly health?: Health
  /** Replaced in tests only. */
  readonly timing?: Timing
}

/** A cache that follows the API server. */
export interface Reflector<T extends KubeObject> {
  readonly cache: ObjectCache<T>
  /** Whether the cache has held everything at some moment. Stays true when the server goes away. */
  hasSynced(): boolean
  /** Resolves with true at that moment, with false when the reflector is stopped before. */
  whenSynced(): Promise<boolean>
  /** Why the cache is behind, such as a missing permission; undefined while all is well. */
  failure(): KubeFailure | undefined
  /**
   * Ends the watch and hears of no more changes; another of its name may be started without waiting for this one's end.
   * Repeating it is harmless; never rejects.
   */
  stop(): Promise<void>
}

const defaultBackoff: BackoffBounds = { firstMs: 800, maxMs: 30_000 }
/** A watch that brought nothing and ended sooner than this is a failed one. */
const shortWatchMs = 10_000
/** A server may end a watch so much before its time by rounding. */
const cutShortMs = 1_000
/** Maximum jitter on Retry-After, as a fraction of it. */
const retryAfterJitter = 0.5
/** After so many failed watches in a row the moment they begin at is doubted. */
const failuresBeforeRelist = 5
/** Added to the longest watch before the loop counts as stuck: lists and pauses. */
const silenceMarginMs = 600_000

/** Starts following; the first list begins at once. */
export function startReflector<T extends KubeObject>(options: ReflectorOptions<T>): Reflector<T> {
  return new FollowingReflector(options)
}

class FollowingReflector<T extends KubeObject> implements Reflector<T> {
  readonly cache: OwnedObjectCache<T>
  readonly #options: ReflectorOptions<T>
  readonly #timing: Timing
  readonly #watchSeconds: { readonly min: number; readonly max: number }
  readonly #heartbeat: Heartbeat | undefined
  readonly #stopping = new AbortController()
  readonly #first = Promise.withResolvers<boolean>()
  readonly #ended: Promise<void>
  #synced = false
  #failure: KubeFailure | undefined
  #failures = 0
  /** Where the next watch begins; undefined when everything must be listed anew. */
  #moment: string | undefined

  constructor(options: ReflectorOptions<T>) {
    this.#options = options
    this.#timing = options.timing ?? systemTiming
    this.#watchSeconds = options.watchSeconds ?? { min: 300, max: 600 }
    this.cache = new OwnedObjectCache(options.keep ?? withoutManagedFields)
    const silentMsMax = this.#watchSeconds.max * 1000 + silenceMarginMs
    this.#heartbeat = options.health?.addHeartbeat(`reflector ${options.name}`, silentMsMax)
    this.#ended = this.#follow()
  }

  hasSynced(): boolean {
    return this.#synced
  }

  whenSynced(): Promise<boolean> {
    return this.#first.promise
  }

  failure(): KubeFailure | undefined {
    return this.#failure
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#first.resolve(false)
    // At once, so that another of its name may follow before this one has ended.
    this.#heartbeat?.stop()
    await this.#ended
  }

  async #follow(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#heartbeat?.beat()
      if (this.#moment === undefined) await this.#list()
      else await this.#watch(this.#moment)
    }
  }

  async #list(): Promise<void> {
    const { transport, of, selection, objectsMax, pageSize, keep = withoutManagedFields } = this.#options
    const { signal } = this.#stopping
    const bounds = {
      ...{ signal, keep },
      ...(objectsMax !== undefined && { objectsMax }),
      ...(pageSize !== undefined && { pageSize }),
    }
    const listed = await createKubeClient(transport).list(of, selection, bounds)
    if (signal.aborted) return
    if (listed.kind !== 'ok') {
      await this.#rest(listed)
      return
    }
    this.#failure = undefined
    this.#moment = listed.value.resourceVersion
    this.#tell(this.cache.replaceAll(listed.value.items))
    this.#synced = true
    this.#first.resolve(true)
  }

  async #watch(moment: string): Promise<void> {
    const { transport, of, selection } = this.#options
    const { min, max } = this.#watchSeconds
    const startedMs = this.#timing.now()
    const timeoutSeconds = Math.round(min + (max - min) * this.#timing.random())
    let moved = false
    const end = await watchOnce({
      transport,
      of,
      selection,
      resourceVersion: moment,
      timeoutSeconds,
      onEvent: (event) => this.#take(event),
      onMoment: (resourceVersion) => {
        this.#moment = resourceVersion
        moved = true
      },
      onSign: () => {
        this.#heartbeat?.beat()
        // The head of the answer comes first, and says that we are let in.
        this.#failure = undefined
      },
      signal: this.#stopping.signal,
      timing: this.#timing,
    })
    const tookMs = this.#timing.now() - startedMs
    const worked = moved || tookMs >= shortWatchMs
    if (worked) this.#failures = 0
    const isCutShort = end.kind === 'closed' && tookMs < timeoutSeconds * 1000 - cutShortMs
    if (isCutShort && this.#options.listsWhenCutShort === true) this.#moment = undefined
    await this.#follows(end, worked)
  }

  /** What is done after a watch has ended. */
  async #follows(end: WatchEnd, worked: boolean): Promise<void> {
    switch (end.kind) {
      case 'stopped':
        return
      case 'closed':
        if (!worked) await this.#rest(undefined)
        return
      case 'stalled':
        this.#options.onTrouble({ kind: 'stalled' })
        return
      case 'failed':
        // Where the server decided nothing, the moment is as good as it was.
        if (end.failure.status !== 0 && end.failure.kind !== 'tooManyRequests') this.#moment = undefined
        // `exhausted` is a local bound: keep the resourceVersion, since relisting would be polling.
        if (this.#failures + 1 >= failuresBeforeRelist && end.failure.kind !== 'exhausted')
          this.#moment = undefined
        // A moment that is too old is nothing unusual after a long silence, and is mended by a list at once.
        if (end.failure.kind === 'gone' && this.#failures === 0) this.#failures = 1
        else await this.#rest(end.failure)
        return
    }
  }

  async #rest(failure: KubeFailure | undefined): Promise<void> {
    this.#failures += 1
    this.#failure = failure ?? this.#failure
    if (failure) this.#options.onTrouble({ kind: 'sync', failure, failures: this.#failures })
    const { backoff = defaultBackoff } = this.#options
    const chance = this.#timing.random()
    const ms = backoffMs(this.#failures - 1, backoff, chance)
    // With jitter: a thousand watches that were refused together must not come back together.
    const wishedMs = (failure?.retryAfterMs ?? 0) * (1 + retryAfterJitter * chance)
    await this.#timing.sleep(Math.max(ms, wishedMs), this.#stopping.signal)
  }

  #take(event: WatchEvent<T>): void {
    if (this.#stopping.signal.aborted) return
    this.#tell(
      event.type === 'DELETED' ? this.cache.delete(event.object.metadata) : this.cache.put(event.object),
    )
  }

  #tell(changes: readonly ObjectChange<T>[]): void {
    const { onChange, onTrouble } = this.#options
    for (const change of changes)
      Promise.try(onChange, change).catch((error: unknown) =>
        onTrouble({ kind: 'handler', key: change.key, error }),
      )
  }
}
