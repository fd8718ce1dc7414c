import type { CallShare } from './request.ts'

/** A Kubernetes object of any kind, as the API server returns it. */
export interface KubeObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: {
    readonly name: string
    /** Absent for cluster-scoped objects. */
    readonly namespace?: string
    readonly uid?: string
    /** Opaque; only comparison for equality is meaningful. */
    readonly resourceVersion?: string
    readonly generation?: number
    /** RFC 3339 in whole seconds. */
    readonly creationTimestamp?: string
    readonly deletionTimestamp?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
    readonly finalizers?: readonly string[]
    readonly ownerReferences?: readonly {
      readonly apiVersion: string
      readonly kind: string
      readonly name: string
      readonly uid: string
      readonly controller?: boolean
    }[]
  }
}

/** A kind of object and its path in the API. `T` is the object's type; the API server enforces its schema. */
export interface Resource<T extends KubeObject> {
  /** `v1`, or group and version such as `apps/v1`. */
  readonly apiVersion: string
  readonly kind: string
  readonly plural: string
  readonly namespaced: boolean
  /** Whether the objects contain secrets; errors then never contain the server's messages. */
  readonly secret: boolean
  /** Pool of concurrent calls for single objects. Lists use a separate pool. */
  readonly share: Exclude<CallShare, 'list'>
  /** Type marker for the compiler; never set. */
  readonly objects?: T
}

/** Describes a kind of object. Defaults: `namespaced` true, `secret` false, `share` `call`. */
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

/** Returns the key of an object within its kind: `namespace/name`, or `name` for a cluster-scoped kind. */
export function objectKey({ namespace, name }: ObjectPlace): string {
  return namespace === undefined ? name : `${namespace}/${name}`
}

/** Parses a key that `objectKey` returned. */
export function parseObjectKey(key: string): ObjectPlace {
  const slash = key.indexOf('/')
  return slash < 0 ? { name: key } : { namespace: key.slice(0, slash), name: key.slice(slash + 1) }
}

/** @throws RangeError for an invalid name */
export function collectionPath(of: Resource<KubeObject>, namespace?: string): string {
  const root = of.apiVersion.includes('/') ? `/apis/${of.apiVersion}` : `/api/${of.apiVersion}`
  if (!of.namespaced || namespace === undefined) return `${root}/${of.plural}`
  return `${root}/namespaces/${segment(namespace)}/${of.plural}`
}

/** @throws RangeError for an invalid name or a missing namespace */
export function objectPath(of: Resource<KubeObject>, place: ObjectPlace): string {
  if (of.namespaced && place.namespace === undefined)
    throw new RangeError(`an object of kind ${of.kind} needs a namespace`)
  return `${collectionPath(of, place.namespace)}/${segment(place.name)}`
}

/** Refuses a name with a slash or dots, which would lead to another path. */
function segment(name: string): string {
  if (/^[a-zA-Z0-9]([-a-zA-Z0-9._:]{0,251}[a-zA-Z0-9])?$/.test(name)) return name
  throw new RangeError('the name of a Kubernetes object is not valid')
}

/** A Kubernetes Secret. Its values are base64. */
export interface Secret extends KubeObject {
  readonly type?: string
  readonly immutable?: boolean
  readonly data?: Readonly<Record<string, string>>
}

/** The Kubernetes resource of Secrets. */
export const secrets = resource<Secret>({ apiVersion: 'v1', kind: 'Secret', plural: 'secrets', secret: true })

/** The Kubernetes resource of namespaces. */
export const namespaces = resource<KubeObject>({
  apiVersion: 'v1',
  kind: 'Namespace',
  plural: 'namespaces',
  namespaced: false,
})
