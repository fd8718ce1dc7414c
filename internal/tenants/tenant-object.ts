import { createHash } from 'node:crypto'
import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'
import { type KubeObject, resource } from '#internal/kube/index.ts'
import { type TenantSpec, tenantApiVersion } from './model.ts'
import { parseTenant } from './parse-tenant.ts'
import { messageCharactersMax } from './reconcile/conditions.ts'
import type { TenantStatus } from './status-schemas.ts'
import type { TenantManifest } from './tenant-source.ts'

/** A Tenant resource. Its spec is not validated; see `parseTenantObject`. */
export interface TenantObject extends KubeObject {
  readonly spec?: unknown
  readonly status?: TenantStatus
}

/** The Kubernetes resource of Tenants. */
export const tenantObjects = resource<TenantObject>({
  apiVersion: tenantApiVersion,
  kind: 'Tenant',
  plural: 'tenants',
})

/** Finalizer that keeps a deleted Tenant until its rows in Postgres are hidden, and deleted if its policy requires that. */
export const tenantFinalizer = 'latchkey.dev/rows'
/** Id of a deleted tenant, whose retained data this Tenant gets. Only the platform may set it. */
export const adoptAnnotation = 'latchkey.dev/adopt'
/** Annotation that resumes deliveries to a suspended callback; the operator then removes it. */
export const resumeCallbackAnnotation = 'latchkey.dev/resume-callback'

/** Validates a Tenant, more strictly than the API server in a few places. The message names fields, but never quotes values. Pure. */
export function parseTenantObject(
  object: TenantObject,
):
  | { readonly kind: 'ok'; readonly manifest: TenantManifest }
  | { readonly kind: 'invalid'; readonly message: string } {
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

/** Returns the slug that a Tenant claims, before validation. Pure. */
export function slugOf({ spec }: TenantObject): unknown {
  return typeof spec === 'object' && spec !== null && 'slug' in spec ? spec.slug : undefined
}

/** Derives a tenant id from a resource's uid. The result is deterministic, and different uids have different ids. Pure. */
export function tenantIdOfUid(uid: string): TenantId {
  return tenantIdFromBytes(createHash('sha256').update(uid, 'utf8').digest())
}

/** Webhook URL of a provider. */
export type WebhookUrl = NonNullable<TenantStatus['urls']>[number]

/**
 * Returns the webhook URLs of a tenant's enabled providers; an empty list while the tenant has no slug. Pure.
 * @param publicUrl prefix of `/v1/t/…`; if it is absent, the URLs are paths
 * @param namesOf returns further names of a provider, each of which also has a URL
 */
export function webhookUrls(
  slug: string | null,
  { providers }: Pick<TenantSpec, 'providers'>,
  publicUrl = '',
  namesOf: (name: string) => readonly string[] = () => [],
): readonly WebhookUrl[] {
  if (slug === null) return []
  const base = publicUrl.replace(/\/+$/, '')
  return providers
    .filter(({ enabled }) => enabled)
    .flatMap(({ name }) => [...new Set([name, ...namesOf(name)])])
    .filter((name, index, all) => all.indexOf(name) === index)
    .map((name) => ({ provider: name, url: `${base}/v1/t/${slug}/webhooks/${name}` }))
}
