import { isJsonObject } from '#internal/base/index.ts'
import { type KubeResult, unavailable } from './failure.ts'
import type { KubeRequest } from './request.ts'
import { collectionPath, type KubeObject, type ObjectPlace, objectPath, type Resource } from './resource.ts'
import type { Transport } from './transport.ts'

export interface Selection {
  /** Namespace of the objects; default all namespaces. */
  readonly namespace?: string | undefined
  /** Label selector in Kubernetes syntax, such as `latchkey.dev/tenant,tier!=gold`. */
  readonly labelSelector?: string | undefined
  readonly fieldSelector?: string | undefined
}

/** All objects of a selection, as one consistent snapshot. */
export interface ObjectList<T> {
  readonly items: readonly T[]
  /** A watch that starts at this version misses no change. */
  readonly resourceVersion: string
}

export interface ListBounds<T extends KubeObject = KubeObject> {
  /** Objects per page; default 500. */
  readonly pageSize?: number
  /** Maximum number of objects; default 100 000. A longer list fails. */
  readonly objectsMax?: number
  /** Removes unneeded fields from each object before the next page is read; by default, objects are kept whole. */
  readonly keep?: ((object: T) => T) | undefined
  readonly signal?: AbortSignal | undefined
}

/** Reads and writes Kubernetes objects. The client sends each request once. The server refuses unknown fields instead of dropping them. */
export interface KubeClient {
  get<T extends KubeObject>(of: Resource<T>, place: ObjectPlace, signal?: AbortSignal): Promise<KubeResult<T>>
  /** Returns `gone` if the snapshot expired between pages; the caller should then list again. */
  list<T extends KubeObject>(
    of: Resource<T>,
    selection: Selection,
    bounds?: ListBounds<T>,
  ): Promise<KubeResult<ObjectList<T>>>
  /** Not idempotent: repeating a successful call returns `alreadyExists`. */
  create<T extends KubeObject>(of: Resource<T>, object: T, signal?: AbortSignal): Promise<KubeResult<T>>
  /** Replaces the whole object. Returns `conflict` if its `resourceVersion` is stale. */
  replace<T extends KubeObject>(of: Resource<T>, object: T, signal?: AbortSignal): Promise<KubeResult<T>>
  /** Applies fields (server-side apply): creates the object if it is missing, and owns exactly the given fields. Idempotent. */
  apply<T extends KubeObject>(
    of: Resource<T>,
    object: { readonly [Name in keyof T]?: unknown } & Pick<KubeObject, 'metadata'>,
    options: {
      /** Name of the writer, which becomes the owner of the applied fields. Each writer uses one constant name. */
      readonly fieldManager: string
      /** Takes ownership of fields from other managers. By default (false), a field with another manager's value causes `conflict`. */
      readonly force?: boolean
      readonly subresource?: 'status'
    },
  ): Promise<KubeResult<T>>
  /** Applies a JSON merge patch (RFC 7396): null removes a field, a list replaces the whole list. Idempotent. */
  mergePatch<T extends KubeObject>(
    of: Resource<T>,
    place: ObjectPlace,
    patch: { readonly [Name in keyof T]?: unknown },
  ): Promise<KubeResult<T>>
}

const applyType = 'application/apply-patch+yaml'
const mergePatchType = 'application/merge-patch+json'
const strict = { fieldValidation: 'Strict' }

/** Creates a client that uses a transport. */
export function createKubeClient(transport: Transport): KubeClient {
  const send = async <T extends KubeObject>(
    of: Resource<T>,
    request: KubeRequest,
  ): Promise<KubeResult<T>> => {
    const result = await transport.request({ ...request, secret: of.secret, share: of.share })
    return result.kind === 'ok' ? parseObject(of, result.value) : result
  }
  return {
    get: (of, place, signal) => send(of, { method: 'GET', path: objectPath(of, place), signal }),
    list: (of, selection, bounds = {}) => listPages(transport, of, selection, bounds),
    create: (of, object, signal) => {
      const path = collectionPath(of, object.metadata.namespace)
      return send(of, { method: 'POST', path, query: strict, body: named(of, object), signal })
    },
    replace: (of, object, signal) => {
      const path = objectPath(of, object.metadata)
      return send(of, { method: 'PUT', path, query: strict, body: named(of, object), signal })
    },
    apply: (of, object, { fieldManager, force = false, subresource }) =>
      send(of, {
        method: 'PATCH',
        path: `${objectPath(of, object.metadata)}${subresource === undefined ? '' : `/${subresource}`}`,
        query: { ...strict, fieldManager, force: String(force) },
        body: named(of, object),
        contentType: applyType,
      }),
    mergePatch: (of, place, patch) =>
      send(of, {
        method: 'PATCH',
        path: objectPath(of, place),
        query: strict,
        body: patch,
        contentType: mergePatchType,
      }),
  }
}

function named(of: Resource<KubeObject>, object: object): object {
  return { ...object, apiVersion: of.apiVersion, kind: of.kind }
}

async function listPages<T extends KubeObject>(
  transport: Transport,
  of: Resource<T>,
  selection: Selection,
  bounds: ListBounds<T>,
): Promise<KubeResult<ObjectList<T>>> {
  const { pageSize = 500, objectsMax = 100_000, keep, signal } = bounds
  const path = collectionPath(of, selection.namespace)
  const items: T[] = []
  let next = ''
  do {
    // A list without resourceVersion is a consistent read on every API server.
    const query = { ...selectors(selection), limit: String(pageSize), ...(next !== '' && { continue: next }) }
    const page = await transport.request({
      method: 'GET',
      path,
      query,
      secret: of.secret,
      share: 'list',
      signal,
    })
    if (page.kind !== 'ok') return page
    const parsed = parsePage(of, page.value)
    if (!parsed) return unavailable(`the response is no list of ${of.plural}`)
    for (const item of parsed.items) items.push(keep ? keep(item) : item)
    if (items.length > objectsMax) return unavailable(`there are more than ${objectsMax} ${of.plural}`)
    next = parsed.next
    // All pages have the resourceVersion of the same snapshot.
    if (next === '') return { kind: 'ok', value: { items, resourceVersion: parsed.resourceVersion } }
  } while (!signal?.aborted)
  return unavailable('aborted by the caller')
}

export function selectors({ labelSelector, fieldSelector }: Selection): Record<string, string> {
  return {
    ...(labelSelector !== undefined && { labelSelector }),
    ...(fieldSelector !== undefined && { fieldSelector }),
  }
}

function parsePage<T extends KubeObject>(of: Resource<T>, value: unknown) {
  if (!isJsonObject(value) || !isJsonObject(value['metadata']) || !Array.isArray(value['items']))
    return undefined
  const { resourceVersion, continue: next } = value['metadata']
  if (typeof resourceVersion !== 'string') return undefined
  const items: T[] = []
  for (const item of value['items'] as readonly unknown[]) {
    const parsed = parseObject(of, item)
    if (parsed.kind !== 'ok') return undefined
    items.push(parsed.value)
  }
  return { items, resourceVersion, next: typeof next === 'string' ? next : '' }
}

/** Casts an object from the API server to its type. Checks only that it has a name, since the server enforces the schema at each write. */
export function parseObject<T extends KubeObject>(of: Resource<T>, value: unknown): KubeResult<T> {
  const metadata = isJsonObject(value) ? value['metadata'] : undefined
  if (!isJsonObject(metadata) || typeof metadata['name'] !== 'string')
    return unavailable(`the response is no ${of.kind}`)
  return { kind: 'ok', value: value as T }
}
