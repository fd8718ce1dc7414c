import type { CallShare } from './request.ts'

/** A reference from an owned object to its owner. */
export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller?: boolean
}

/** Metadata of an object. */
export interface ObjectMeta {
  readonly name: string
  /** Absent for cluster-scoped objects. */
  readonly namespace?: string
  readonly uid?: string
  /** Opaque: compared for equality only. */
  readonly resourceVersion?: string
  readonly generation?: number
  /** RFC 3339, whole seconds. */
  readonly creationTimestamp?: string
  readonly deletionTimestamp?: string
  readonly labels?: Readonly<Record<string, string>>
  readonly annotations?: Readonly<Record<string, string>>
  readonly finalizers?: readonly string[]
  readonly ownerReferences?: readonly OwnerReference[]
}

/** Any object, as the API server returns it. */
export interface KubeObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
}

/** A kind and its place in the API. `T` is its type, whose schema the API server enforces. */
export interface Resource<T extends KubeObject> {
  /** `v1`, or group and version: `apps/v1`. */
  readonly apiVersion: string
  readonly kind: string
  readonly plural: string
  readonly namespaced: boolean
  /** Its objects hold secrets: the server's messages about them never reach an error's text. */
  readonly secret: boolean
  /** Concurrency pool of calls for single objects; lists have their own. */
  readonly share: Exclude<CallShare, 'list'>
  /** Carries `T` for the compiler; never set. */
  readonly objects?: T
}

/** Describes a kind. Defaults: `namespaced` true, `secret` false, `share` `call`. */
export function resource<T extends KubeObject>(
  facts: Pick<Resource<T>, 'apiVersion' | 'kind' | 'plural'> & Partial<Resource<T>>,
): Resource<T> {
  return { namespaced: true, secret: false, share: 'call', ...facts }
}

/** Namespace and name of an object. */
export interface ObjectPlace {
  readonly namespace?: string | undefined
  readonly name: string
}

/** Returns the object's key among those of its kind: `namespace/name`, or `name` for cluster-scoped kinds. */
export function objectKey({ namespace, name }: ObjectPlace): string {
  return namespace === undefined ? name : `${namespace}/${name}`
}

/** Inverts `objectKey`. */
export function parseObjectKey(key: string): ObjectPlace {
  const slash = key.indexOf('/')
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

/** Returns the path of a kind's collection, of one namespace or of all. @throws RangeError for an invalid name */
export function collectionPath(of: Resource<KubeObject>, namespace?: string): string {
  const root = of.apiVersion.includes('/') ? `/apis/${of.apiVersion}` : `/api/${of.apiVersion}`
  if (!of.namespaced || namespace === undefined) return `${root}/${of.plural}`
  return `${root}/namespaces/${segment(namespace)}/${of.plural}`
}

/** Returns the path of one object. @throws RangeError for an invalid name or a missing namespace */
export function objectPath(of: Resource<KubeObject>, place: ObjectPlace): string {
  if (of.namespaced && place.namespace === undefined) throw new RangeError(`a ${of.kind} needs a namespace`)
  return `${collectionPath(of, place.namespace)}/${segment(place.name)}`
}

/** Refuses a name with a slash or dots, which would address another path. */
function segment(name: string): string {
  if (/^[a-zA-Z0-9]([-a-zA-Z0-9._:]{0,251}[a-zA-Z0-9])?$/.test(name)) return name
  throw new RangeError('not a valid object name')
}

/** A Secret, its values in base64. */
export interface Secret extends KubeObject {
  readonly type?: string
  readonly immutable?: boolean
  readonly data?: Readonly<Record<string, string>>
}

/** Secrets. */
export const secrets = resource<Secret>({ apiVersion: 'v1', kind: 'Secret', plural: 'secrets', secret: true })

/** Namespaces. */
export const namespaces = resource<KubeObject>({
  apiVersion: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
})
