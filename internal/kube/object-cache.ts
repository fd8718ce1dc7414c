import { isDeepStrictEqual } from 'node:util'
import type { KubeObject, ObjectPlace } from './resource.ts'

/** Names an object among those of its kind: `namespace/name`, or `name` where there are no namespaces. */
export function objectKey({ namespace, name }: ObjectPlace): string {
  return namespace === undefined ? name : `${namespace}/${name}`
}

/** Undoes `objectKey`. */
export function parseObjectKey(key: string): ObjectPlace {
  const slash = key.indexOf('/')
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

/** What became of an object. `before` is what was known of it until now. */
export type ObjectChange<T> =
  | { readonly kind: 'added'; readonly key: string; readonly object: T }
  | { readonly kind: 'updated'; readonly key: string; readonly object: T; readonly before: T }
  | { readonly kind: 'deleted'; readonly key: string; readonly before: T }

/** The objects of a selection in memory, as new as the last sign of the server. Objects are shared: never change one. */
export interface ObjectCache<T> {
  readonly size: number
  get(place: ObjectPlace): T | undefined
  /** In no order. */
  values(): IterableIterator<T>
  keys(): IterableIterator<string>
}

/** A cache with its owner's right to change it. Each change tells what it changed; a repeated one tells nothing. */
export class OwnedObjectCache<T extends KubeObject> implements ObjectCache<T> {
  readonly #keep: (object: T) => T
  #objects = new Map<string, T>()

  /** @param keep what of an object is worth its memory */
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

  /** Takes an object as it is now. */
  put(object: T): ObjectChange<T>[] {
    const key = objectKey(object.metadata)
    const before = this.#objects.get(key)
    const kept = this.#keep(object)
    if (before && isSame(before, kept)) return []
    this.#objects.set(key, kept)
    return changesBetween(key, before, kept)
  }

  /** Takes an object out. */
  delete(place: ObjectPlace): ObjectChange<T>[] {
    const key = objectKey(place)
    const before = this.#objects.get(key)
    if (!before) return []
    this.#objects.delete(key)
    return [{ kind: 'deleted', key, before }]
  }

  /**
   * Takes all objects as they are now; those that are not among them are gone. One that is told otherwise at the same version
   * has changed too: a definition may have given it fields or defaults.
   */
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

/** Another uid is another object, which took the name while nobody looked. */
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

/** Leaves out who manages which field: often half of an object, and of no use to a reader. */
export function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata as T['metadata'] & { managedFields?: unknown }
  return { ...object, metadata }
}
