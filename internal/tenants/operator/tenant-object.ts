import { type KubeObject, resource } from '#internal/kube/index.ts'
import type { TenantStatus } from '../crd/status.ts'
import { tenantResource } from '../crd/tenant-crd.ts'
import { tenantApiVersion } from '../model.ts'
import { parseTenant } from '../parse.ts'
import { messageCharactersMax } from '../reconcile/conditions.ts'
import type { TenantManifest } from '../source.ts'

/** A Tenant as the API server keeps it. Its spec is parsed before it is used. */
export interface TenantObject extends KubeObject {
  readonly spec?: unknown
  readonly status?: TenantStatus
}

/** Tenants. */
export const tenantObjects = resource<TenantObject>({
  apiVersion: tenantApiVersion,
  kind: 'Tenant',
  plural: tenantResource.plural,
})

/** Keeps a deleted Tenant until its rows in Postgres are hidden, and gone where its policy says so. */
export const tenantFinalizer = 'latchkey.dev/rows'
/** On a Tenant, lets the deliveries of its suspended callback go on; taken away once that is done. */
export const resumeCallbackAnnotation = 'latchkey.dev/resume-callback'

/** A Tenant that was read, or what is wrong with it. `message` never quotes a value of it. */
export type ParsedTenantObject =
  | { readonly kind: 'ok'; readonly manifest: TenantManifest }
  | { readonly kind: 'invalid'; readonly message: string }

/** Reads a Tenant by the one schema, which is in a few places narrower than the API server's. Pure. */
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

/** The slug that a Tenant wants, before it is parsed. Pure. */
export function slugOf({ spec }: TenantObject): unknown {
  return typeof spec === 'object' && spec !== null && 'slug' in spec ? spec.slug : undefined
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/** What of a Tenant is worth its memory. */
export function keptOfTenant(object: TenantObject): TenantObject {
  const { managedFields: _, ...metadata } = object.metadata as TenantObject['metadata'] & {
    managedFields?: unknown
  }
  const { [lastApplied]: __, ...annotations } = metadata.annotations ?? {}
  const { spec, status } = object
  return { metadata: { ...metadata, annotations }, spec, ...(status !== undefined && { status }) }
}
