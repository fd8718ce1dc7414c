import { createHash } from 'node:crypto'
import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'
import { type KubeObject, resource } from '#internal/kube/index.ts'
import { tenantApiVersion, type WebhookUrl } from './model.ts'
import { parseTenant } from './parse.ts'
import { messageCharactersMax, type WantedCondition } from './reconcile/conditions.ts'
import type { TenantManifest } from './source.ts'

/** Status of a Tenant, written by the operator; `crds/` describes its fields. Contains no value of a secret. */
export interface TenantStatus {
  readonly observedGeneration?: number
  readonly tenantId?: string
  readonly conditions?: readonly (WantedCondition & {
    readonly lastTransitionTime: string
    readonly observedGeneration?: number
  })[]
  readonly urls?: readonly WebhookUrl[]
  readonly secrets?: readonly {
    readonly name: string
    /** resourceVersion last read; absent if none was read. */
    readonly version?: string
    readonly generated?: boolean
  }[]
}

/** A Tenant resource. `parseTenantObject` validates its spec. */
export interface TenantObject extends KubeObject {
  readonly spec?: unknown
  readonly status?: TenantStatus
}

/** Tenants. */
export const tenantObjects = resource<TenantObject>({
  apiVersion: tenantApiVersion,
  kind: 'Tenant',
  plural: 'tenants',
})

/** Keeps a deleted Tenant until its rows in Postgres are hidden, and removed if its policy says so. */
export const tenantFinalizer = 'latchkey.dev/rows'
/** Annotation that adopts the retained data of a deleted tenant, given its id. Only the platform may set it. */
export const adoptAnnotation = 'latchkey.dev/adopt'
/** Annotation of a Tenant that resumes deliveries to its suspended callback; removed once that is done. */
export const resumeCallbackAnnotation = 'latchkey.dev/resume-callback'

/** Result of `parseTenantObject`. `message` names fields, never their values. */
export type ParsedTenantObject =
  | { readonly kind: 'ok'; readonly manifest: TenantManifest }
  | { readonly kind: 'invalid'; readonly message: string }

/** Validates a Tenant by the schema of `model.ts`, which is narrower than the API server's in a few places. Pure. */
export function parseTenantObject(object: TenantObject): ParsedTenantObject {
  const { name, namespace = 'default', uid = '', creationTimestamp = '' } = object.metadata
  const parsed = parseTenant({
    apiVersion: tenantApiVersion,
    kind: 'Tenant',
    metadata: { name, namespace },
    spec: object.spec,
  })
  if (parsed.kind === 'invalid') {
    const text = parsed.problems.map(({ path, message }) => `${path} ${message}`).join('; ')
    return { kind: 'invalid', message: text.slice(0, messageCharactersMax) }
  }
  const createdAtMs = Date.parse(creationTimestamp)
  return {
    kind: 'ok',
    manifest: {
      uid,
      namespace,
      name,
      createdAtMs: Number.isNaN(createdAtMs) ? undefined : createdAtMs,
      spec: parsed.tenant.spec,
    },
  }
}

/** Returns the slug that a Tenant asks for, before validation. Pure. */
export function slugOf({ spec }: TenantObject): unknown {
  return typeof spec === 'object' && spec !== null && 'slug' in spec ? spec.slug : undefined
}

/** Returns the first id of the tenant of a resource. Deterministic; other uids give other ids. Pure. */
export function tenantIdOfUid(uid: string): TenantId {
  return tenantIdFromBytes(createHash('sha256').update(uid, 'utf8').digest())
}
