import { isObject, type KubeResult, unavailable } from './failure.ts'
import type { KubeRequest } from './request.ts'
import { collectionPath, type KubeObject, type ObjectPlace, objectPath, type Resource } from './resource.ts'
import type { Transport } from './transport.ts'

/** Which objects of a kind. */
export interface Selection {
  /** Default: of all namespaces. */
  readonly namespace?: string | undefined
  /** In the API's syntax, such as `latchkey.dev/tenant,tier!=gold`. */
  readonly labelSelector?: string | undefined
  readonly fieldSelector?: string | undefined
}

/** All objects of a selection, as they were at one moment. */
export interface ObjectList<T> {
  readonly items: readonly T[]
  /** The moment; a watch goes on from here. */
  readonly resourceVersion: string
}

/** How a list is fetched. */
export interface ListBounds<T extends KubeObject = KubeObject> {
  /** Objects a page; default 500. */
  readonly pageSize?: number
  /** More objects than this are a failure; default 100 000. */
  readonly objectsMax?: number
  /** What of each object is worth its memory while further pages come; default all of it. */
  readonly keep?: ((object: T) => T) | undefined
  readonly signal?: AbortSignal | undefined
}

/** How fields are claimed by server-side apply. */
export interface ApplyOptions {
  /** Who owns the fields: one constant for each of our writers. */
  readonly fieldManager: string
  /** Takes fields from other managers; default false: a field that somebody else set otherwise is `conflict`. */
  readonly force?: boolean
  readonly subresource?: 'status'
  readonly signal?: AbortSignal | undefined
}

/** What is to be deleted; with `uid` that very object, not a later one of its name. */
export interface RemoveOptions {
  readonly uid?: string | undefined
  readonly resourceVersion?: string | undefined
  /** What becomes of what it owns; default: the kind's own, mostly `Background`. */
  readonly propagation?: 'Background' | 'Foreground' | 'Orphan'
  readonly signal?: AbortSignal | undefined
}

/** A partial object to apply or patch with. */
export type Partially<T> = { readonly [Name in keyof T]?: unknown }

/** Calls that act on objects. Each tries once; unknown fields in what is sent are refused, never dropped. */
export interface KubeClient {
  get<T extends KubeObject>(of: Resource<T>, place: ObjectPlace, signal?: AbortSignal): Promise<KubeResult<T>>
  /** Reads page by page; `gone` when the list outlived its moment, which a new call mends. */
  list<T extends KubeObject>(
    of: Resource<T>,
    selection: Selection,
    bounds?: ListBounds<T>,
  ): Promise<KubeResult<ObjectList<T>>>
  /** Not to be repeated blindly: the repetition of one that was made is `alreadyExists`. */
  create<T extends KubeObject>(of: Resource<T>, object: T, signal?: AbortSignal): Promise<KubeResult<T>>
  /** Writes the whole object; with its `resourceVersion`, `conflict` when somebody was faster. */
  replace<T extends KubeObject>(of: Resource<T>, object: T, signal?: AbortSignal): Promise<KubeResult<T>>
  /** Server-side apply: makes the object at need, and owns exactly the fields given. Safe to repeat. */
  apply<T extends KubeObject>(
    of: Resource<T>,
    object: Partially<T> & Pick<KubeObject, 'metadata'>,
    options: ApplyOptions,
  ): Promise<KubeResult<T>>
  /** Merges by RFC 7396: null removes, a list replaces. Safe to repeat. */
  mergePatch<T extends KubeObject>(
    of: Resource<T>,
    place: ObjectPlace,
    patch: Partially<T>,
    subresource?: 'status',
  ): Promise<KubeResult<T>>
  /** Begins the deletion; `conflict` when it is not the object meant. Safe to repeat: then it is `notFound`. */
  remove(of: Resource<KubeObject>, place: ObjectPlace, options?: RemoveOptions): Promise<KubeResult<void>>
  /** Creates what is an answer rather than an object, such as a `TokenReview`. Safe to repeat. */
  review(of: Resource<KubeObject>, body: object): Promise<KubeResult<unknown>>
}

const applyType = 'application/apply-patch+yaml'
const mergePatchType = 'application/merge-patch+json'
const strict = { fieldValidation: 'Strict' }

/** Makes a client over a transport. */
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
    list: (of, selection, bounds = {}) => listPages(transport, { of, selection, bounds }),
    create: (of, object, signal) => {
      const path = collectionPath(of, object.metadata.namespace)
      return send(of, { method: 'POST', path, query: strict, body: named(of, object), signal })
    },
    replace: (of, object, signal) => {
      const path = objectPath(of, object.metadata)
      return send(of, { method: 'PUT', path, query: strict, body: named(of, object), signal })
    },
    apply: (of, object, { fieldManager, force = false, subresource, signal }) =>
      send(of, {
        method: 'PATCH',
        path: withSubresource(objectPath(of, object.metadata), subresource),
        query: { ...strict, fieldManager, force: String(force) },
        body: named(of, object),
        contentType: applyType,
        signal,
      }),
    mergePatch: (of, place, patch, subresource) =>
      send(of, {
        method: 'PATCH',
        path: withSubresource(objectPath(of, place), subresource),
        query: strict,
        body: patch,
        contentType: mergePatchType,
      }),
    remove: async (of, place, options = {}) => {
      const body = deleteOptions(options)
      const path = objectPath(of, place)
      const { secret, share } = of
      const { signal } = options
      const result = await transport.request({ method: 'DELETE', path, body, secret, share, signal })
      return result.kind === 'ok' ? { kind: 'ok', value: undefined } : result
    },
    review: (of, body) =>
      transport.request({
        method: 'POST',
        path: collectionPath(of),
        body: named(of, body),
        secret: of.secret,
      }),
  }
}

function named(of: Resource<KubeObject>, object: object): object {
  return { ...object, apiVersion: of.apiVersion, kind: of.kind }
}

function withSubresource(path: string, subresource: 'status' | undefined): string {
  return subresource === undefined ? path : `${path}/${subresource}`
}

function deleteOptions({ uid, resourceVersion, propagation }: RemoveOptions): object {
  const preconditions = {
    ...(uid !== undefined && { uid }),
    ...(resourceVersion !== undefined && { resourceVersion }),
  }
  return {
    apiVersion: 'v1',
    kind: 'DeleteOptions',
    ...(Object.keys(preconditions).length > 0 && { preconditions }),
    ...(propagation !== undefined && { propagationPolicy: propagation }),
  }
}

interface Listing<T extends KubeObject> {
  readonly of: Resource<T>
  readonly selection: Selection
  readonly bounds: ListBounds<T>
}

async function listPages<T extends KubeObject>(
  transport: Transport,
  { of, selection, bounds }: Listing<T>,
): Promise<KubeResult<ObjectList<T>>> {
  const { pageSize = 500, objectsMax = 100_000, keep, signal } = bounds
  const path = collectionPath(of, selection.namespace)
  const items: T[] = []
  let next = ''
  do {
    // No resourceVersion: the list is as new as anything this client has seen, whichever server answers.
    const query = { ...selectors(selection), limit: String(pageSize), ...(next !== '' && { continue: next }) }
    const page = await transport.request({
      ...{ method: 'GET', path, query, secret: of.secret, share: 'list', signal },
    })
    if (page.kind !== 'ok') return page
    const parsed = parsePage(of, page.value)
    if (!parsed) return unavailable(`the answer is no list of ${of.plural}`)
    for (const item of parsed.items) items.push(keep ? keep(item) : item)
    if (items.length > objectsMax) return unavailable(`there are more than ${objectsMax} ${of.plural}`)
    next = parsed.next
    // All pages show one moment, which each of them names.
    if (next === '') return { kind: 'ok', value: { items, resourceVersion: parsed.resourceVersion } }
  } while (!signal?.aborted)
  return unavailable('nobody waits for the list any more')
}

/** The query of a selection. */
export function selectors({ labelSelector, fieldSelector }: Selection): Record<string, string> {
  return {
    ...(labelSelector !== undefined && { labelSelector }),
    ...(fieldSelector !== undefined && { fieldSelector }),
  }
}

function parsePage<T extends KubeObject>(of: Resource<T>, value: unknown) {
  if (!isObject(value) || !isObject(value['metadata']) || !Array.isArray(value['items'])) return undefined
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

/**
 * Takes an object as the API server gave it. Beyond its name nothing is checked here: the kind's schema is enforced by the
 * server, at each write and each change of version.
 */
export function parseObject<T extends KubeObject>(of: Resource<T>, value: unknown): KubeResult<T> {
  const metadata = isObject(value) ? value['metadata'] : undefined
  if (!isObject(metadata) || typeof metadata['name'] !== 'string')
    return unavailable(`the answer is no ${of.kind}`)
  return { kind: 'ok', value: value as T }
}
