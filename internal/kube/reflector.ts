import { isDeepStrictEqual } from 'node:util'
import { type BackoffBounds, backoffMs } from '#internal/base/index.ts'
import type { Health, Heartbeat } from '#internal/telemetry/index.ts'
import { createKubeClient, type Selection } from './client.ts'
import type { KubeFailure } from './failure.ts'
import { type KubeObject, type ObjectPlace, objectKey, type Resource } from './resource.ts'
import type { Transport } from './transport.ts'
import { systemTiming, type Timing } from './waits.ts'
import { type WatchEnd, type WatchOptions, watchOnce } from './watch.ts'

/** A problem of a reflector. The reflector continues after every problem. */
export type ReflectorTrouble =
  | { readonly kind: 'handler'; readonly key: string; readonly error: unknown }
  /** `failures` counts consecutive failures. The cache keeps its objects. */
  | { readonly kind: 'sync'; readonly failure: KubeFailure; readonly failures: number }
  | { readonly kind: 'stalled' }

export interface ReflectorOptions<T extends KubeObject> {
  readonly name: string
  readonly transport: Transport
  readonly of: Resource<T>
  readonly selection: Selection
  /** Called in order, starting with the first list. Exceptions and rejections are passed to `onTrouble`. */
  readonly onChange: (change: ObjectChange<T>) => unknown
  /** Must not throw. */
  readonly onTrouble: (trouble: ReflectorTrouble) => void
  /** Trims each object before it is cached; default `withoutManagedFields`. The result must contain name, uid and resourceVersion. */
  readonly keep?: (object: T) => T
  /** Maximum number of objects; default 100 000. A longer list fails. */
  readonly objectsMax?: number
  readonly pageSize?: number
  /** Range of the duration of a watch in seconds; each watch gets a random duration. Default 300 to 600. */
  readonly watchSeconds?: { readonly min: number; readonly max: number }
  /** Lists again when a watch ends early; default false. For custom resources, whose changed definition can change cached objects. */
  readonly listsWhenCutShort?: boolean
  /** Delays after failures; default 800 ms to 30 s. A longer Retry-After takes precedence. */
  readonly backoff?: BackoffBounds
  readonly health?: Health
  readonly timing?: Timing
}

const defaultBackoff: BackoffBounds = { firstMs: 800, maxMs: 30_000 }
/** Minimum duration of a watch. A watch that ends sooner without any event counts as failed. */
const shortWatchMs = 10_000
/** Tolerance for the server's rounding of a watch's duration. */
const cutShortMs = 1_000
/** Maximum jitter that is added to Retry-After, as a fraction of its delay. */
const retryAfterJitter = 0.5
const failuresBeforeRelist = 5
/** Added to the maximum duration of a watch to get the timeout of the heartbeat; allows for lists and retry delays. */
const silenceMarginMs = 600_000

/** Keeps a cache in sync with the API server's objects by list and watch. Starts in the constructor. */
export class Reflector<T extends KubeObject> {
  readonly cache: ObjectCache<T>
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
  /** Undefined if the reflector has to list first. */
  #position: string | undefined

  constructor(options: ReflectorOptions<T>) {
    this.#options = options
    this.#timing = options.timing ?? systemTiming
    this.#watchSeconds = options.watchSeconds ?? { min: 300, max: 600 }
    this.cache = new ObjectCache(options.keep ?? withoutManagedFields)
    const silentMsMax = this.#watchSeconds.max * 1000 + silenceMarginMs
    this.#heartbeat = options.health?.addHeartbeat(`reflector ${options.name}`, silentMsMax)
    this.#ended = this.#follow()
  }

  /** Returns whether a list has succeeded. Stays true while the server is unavailable. */
  hasSynced(): boolean {
    return this.#synced
  }

  /** Resolves with false if the reflector is stopped first. */
  whenSynced(): Promise<boolean> {
    return this.#first.promise
  }

  /** Reason that the cache may be stale, such as a missing permission. */
  failure(): KubeFailure | undefined {
    return this.#failure
  }

  /** Stops the reflector, which reports no further changes. Its name can be reused immediately. Idempotent; never rejects. */
  async stop(): Promise<void> {
    this.#stopping.abort()
    this.#first.resolve(false)
    // Stops the heartbeat before the watch has ended, so that its name can be reused immediately.
    this.#heartbeat?.stop()
    await this.#ended
  }

  async #follow(): Promise<void> {
    while (!this.#stopping.signal.aborted) {
      this.#heartbeat?.beat()
      if (this.#position === undefined) await this.#list()
      else await this.#watch(this.#position)
    }
  }

  async #list(): Promise<void> {
    const { transport, of, selection, objectsMax, pageSize, keep = withoutManagedFields } = this.#options
    const { signal } = this.#stopping
    const bounds = {
      signal,
      keep,
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
    this.#position = listed.value.resourceVersion
    this.#report(this.cache.replaceAll(listed.value.items))
    this.#synced = true
    this.#first.resolve(true)
  }

  async #watch(position: string): Promise<void> {
    const { transport, of, selection } = this.#options
    const { min, max } = this.#watchSeconds
    const startedMs = this.#timing.now()
    const timeoutSeconds = Math.round(min + (max - min) * this.#timing.random())
    let moved = false
    const end = await watchOnce({
      transport,
      of,
      selection,
      resourceVersion: position,
      timeoutSeconds,
      onEvent: (event) => this.#take(event),
      onPosition: (resourceVersion) => {
        this.#position = resourceVersion
        moved = true
      },
      onActivity: () => {
        this.#heartbeat?.beat()
        // A response proves that access is granted.
        this.#failure = undefined
      },
      signal: this.#stopping.signal,
      timing: this.#timing,
    })
    const tookMs = this.#timing.now() - startedMs
    const worked = moved || tookMs >= shortWatchMs
    if (worked) this.#failures = 0
    const isCutShort = end.kind === 'closed' && tookMs < timeoutSeconds * 1000 - cutShortMs
    if (isCutShort && this.#options.listsWhenCutShort === true) this.#position = undefined
    await this.#follows(end, worked)
  }

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
        // Lists again if the server refused the watch. After no response or a 429, the resourceVersion is still valid.
        if (end.failure.status !== 0 && end.failure.kind !== 'tooManyRequests') this.#position = undefined
        // Lists again after several consecutive failures. `exhausted` is a limit of this process and says nothing about the
        // resourceVersion.
        if (this.#failures + 1 >= failuresBeforeRelist && end.failure.kind !== 'exhausted')
          this.#position = undefined
        // A resourceVersion normally expires after a long time without changes, so the first `gone` causes a list without a delay.
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
    // Jitter: many watches that are refused together must not retry together.
    const retryAfterMs = (failure?.retryAfterMs ?? 0) * (1 + retryAfterJitter * chance)
    await this.#timing.sleep(Math.max(ms, retryAfterMs), this.#stopping.signal)
  }

  #take(event: Parameters<WatchOptions<T>['onEvent']>[0]): void {
    if (this.#stopping.signal.aborted) return
    this.#report(
      event.type === 'DELETED' ? this.cache.delete(event.object.metadata) : this.cache.put(event.object),
    )
  }

  #report(changes: readonly ObjectChange<T>[]): void {
    const { onChange, onTrouble } = this.#options
    for (const change of changes)
      Promise.try(onChange, change).catch((error: unknown) =>
        onTrouble({ kind: 'handler', key: change.key, error }),
      )
  }
}

/** A change of a cached object. `before` is its previous state. */
export type ObjectChange<T> =
  | { readonly kind: 'added'; readonly key: string; readonly object: T }
  | { readonly kind: 'updated'; readonly key: string; readonly object: T; readonly before: T }
  | { readonly kind: 'deleted'; readonly key: string; readonly before: T }

/** The objects are shared, so callers must not mutate them. Each write returns the resulting changes. */
export class ObjectCache<T extends KubeObject> {
  readonly #keep: (object: T) => T
  #objects = new Map<string, T>()

  constructor(keep: (object: T) => T) {
    this.#keep = keep
  }

  get size(): number {
    return this.#objects.size
  }

  get(place: ObjectPlace): T | undefined {
    return this.#objects.get(objectKey(place))
  }

  values(): IterableIterator<T> {
    return this.#objects.values()
  }

  keys(): IterableIterator<string> {
    return this.#objects.keys()
  }

  put(object: T): ObjectChange<T>[] {
    const key = objectKey(object.metadata)
    const before = this.#objects.get(key)
    const kept = this.#keep(object)
    if (before && isSame(before, kept)) return []
    this.#objects.set(key, kept)
    return changesBetween(key, before, kept)
  }

  delete(place: ObjectPlace): ObjectChange<T>[] {
    const key = objectKey(place)
    const before = this.#objects.get(key)
    if (!before) return []
    this.#objects.delete(key)
    return [{ kind: 'deleted', key, before }]
  }

  /** Compares whole objects even if resourceVersions are equal, because a changed CRD can add fields or defaults. */
  replaceAll(objects: readonly T[]): ObjectChange<T>[] {
    const old = this.#objects
    this.#objects = new Map()
    const changes: ObjectChange<T>[] = []
    for (const object of objects) {
      const key = objectKey(object.metadata)
      const before = old.get(key)
      old.delete(key)
      const kept = this.#keep(object)
      const same = before !== undefined && isSame(before, kept) && isDeepStrictEqual(before, kept)
      this.#objects.set(key, same ? before : kept)
      if (!same) changes.push(...changesBetween(key, before, kept))
    }
    for (const [key, before] of old) changes.push({ kind: 'deleted', key, before })
    return changes
  }
}

/** A different uid means that the first object was deleted and the second created. */
function changesBetween<T extends KubeObject>(
  key: string,
  before: T | undefined,
  object: T,
): ObjectChange<T>[] {
  if (!before) return [{ kind: 'added', key, object }]
  if (before.metadata.uid === object.metadata.uid) return [{ kind: 'updated', key, object, before }]
  return [
    { kind: 'deleted', key, before },
    { kind: 'added', key, object },
  ]
}

function isSame(one: KubeObject, other: KubeObject): boolean {
  const { uid, resourceVersion } = one.metadata
  return (
    resourceVersion !== undefined &&
    resourceVersion === other.metadata.resourceVersion &&
    uid === other.metadata.uid
  )
}

/** Removes `managedFields`, which are often half of an object's size. */
export function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata as T['metadata'] & { managedFields?: unknown }
  return { ...object, metadata }
}
