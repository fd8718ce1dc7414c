import type { CallShare } from './request.ts'

/** A reference from an owned object to its owner. */
export interface OwnerReference {
  readonly apiVersion: string
  readonly kind: string
  readonly name: string
  readonly uid: string
  readonly controller?: boolean
  readonly blockOwnerDeletion?: boolean
}

/** What every object carries. */
export interface ObjectMeta {
  readonly name: string
  /** Absent for objects that belong to the whole cluster. */
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

/** Any object, as the API server keeps it. */
export interface KubeObject {
  readonly apiVersion?: string
  readonly kind?: string
  readonly metadata: ObjectMeta
}

/** A kind of objects, and where the API server has them. `T` is what the server's schema holds them to. */
export interface Resource<T extends KubeObject> {
  /** `v1`, or group and version: `apps/v1`. */
  readonly apiVersion: string
  readonly kind: string
  readonly plural: string
  readonly namespaced: boolean
  /** Its objects hold secrets: what the server says about them never reaches an error's text. */
  readonly secret: boolean
  /** The share of calls in flight that is used for single objects; lists have their own. */
  readonly share: Exclude<CallShare, 'list'>
  /** Holds `T`; there is nothing in it. */
  readonly objects?: T
}

/** Describes a kind. `namespaced` is by default true, `secret` false, `share` `call`. */
export function resource<T extends KubeObject>(
  facts: Pick<Resource<T>, 'apiVersion' | 'kind' | 'plural'> & Partial<Resource<T>>,
): Resource<T> {
  return { namespaced: true, secret: false, share: 'call', ...facts }
}

/** Where an object is. */
export interface ObjectPlace {
  readonly namespace?: string | undefined
  readonly name: string
}

/** The path of a kind's collection: of one namespace, or of all when none is given. @throws RangeError for a name that is none */
export function collectionPath(of: Resource<KubeObject>, namespace?: string): string {
  const root = of.apiVersion.includes('/') ? `/apis/${of.apiVersion}` : `/api/${of.apiVersion}`
  if (!of.namespaced || namespace === undefined) return `${root}/${of.plural}`
  return `${root}/namespaces/${segment(namespace)}/${of.plural}`
}

/** The path of one object. @throws RangeError for a name that is none, or when a namespace is missing */
export function objectPath(of: Resource<KubeObject>, place: ObjectPlace): string {
  if (of.namespaced && place.namespace === undefined)
    throw new RangeError(`a ${of.kind} is in a namespace; which one?`)
  return `${collectionPath(of, place.namespace)}/${segment(place.name)}`
}

/** A name that holds a slash or dots would be another path, so it is refused rather than encoded. */
function segment(name: string): string {
  if (/^[a-zA-Z0-9]([-a-zA-Z0-9._:]{0,251}[a-zA-Z0-9])?$/.test(name)) return name
  throw new RangeError('not the name of an object')
}

/** What a Secret holds: values in base64. */
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
