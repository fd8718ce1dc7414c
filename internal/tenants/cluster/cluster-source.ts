import { expectOk, type KubeClient } from '#internal/kube/index.ts'
import type { CheckResult } from '#internal/telemetry/index.ts'
import { generatedNamesOf } from '../secret-manifest.ts'
import { type TenantObject, tenantFinalizer, tenantObjects } from '../tenant-object.ts'
import type { TenantSource } from '../tenant-source.ts'
import { startClusterProviders } from './cluster-providers.ts'
import { ClusterSecrets } from './cluster-secrets.ts'
import { ClusterView, type ClusterViewOptions } from './cluster-view.ts'

/** Field manager of status writes. Metadata writes use a different field manager. */
const statusManager = 'latchkey-operator-status'

/**
 * Starts to watch the Tenants and Secrets of a cluster. The caller must stop the source. `check` is its readiness check, which succeeds after
 * the first complete read; a forbidden namespace does not delay the others.
 */
export function startClusterSource(
  options: Omit<ClusterViewOptions, 'onSecretDeleted'> & {
    readonly client: KubeClient
    readonly events: Pick<TenantSource, 'record'>
    /** User name of this process at the API server. It appears in the command that grants missing permissions. */
    readonly username: string
  },
): TenantSource & { check(): CheckResult; stop(): Promise<void> } {
  const { client, events, username } = options
  const secrets = new ClusterSecrets({ client, known: (place) => view.secret(place), username })
  const view = new ClusterView({ ...options, onSecretDeleted: (place) => secrets.forget(place) })
  const providers = startClusterProviders({ ...options, statusManager })
  return {
    providers,
    vanishedData: 'keep',
    resumesMovedCallback: false,
    owns: ({ uid }) => !uid.startsWith('folder:'),
    settled: (signal) => view.settled(signal),
    tenant: (place) => view.tenant(place),
    tenants: () => view.tenants(),
    claimants: (slug) => view.claimants(slug),
    isComplete: (namespace) => view.isComplete(namespace),
    async isAbsent(place) {
      const found = await client.get(tenantObjects, place)
      if (found.kind === 'notFound') return true
      expectOk('cannot read a Tenant', found)
      return false
    },
    follow(listener) {
      const unlisten = view.onKey(listener)
      return async () => unlisten()
    },
    secretsOf: (manifest, mayWrite) =>
      secrets.of({ ...manifest, generated: generatedNamesOf(manifest) }, mayWrite),
    hold: (object) => addFinalizer(client, object),
    release: (object) => removeFinalizer(client, object),
    async applyStatus({ metadata: { namespace, name, uid } }, status) {
      const metadata = {
        name,
        ...(namespace !== undefined && { namespace }),
        ...(uid !== undefined && { uid }),
      }
      const terms = { fieldManager: statusManager, force: true, subresource: 'status' } as const
      const result = await client.apply(tenantObjects, { metadata, status }, terms)
      // The Tenant was deleted or recreated after it was read.
      if (result.kind === 'notFound' || result.kind === 'conflict') return false
      expectOk('cannot write the status of a Tenant', result)
      return true
    },
    async removeAnnotation(object, name) {
      const patch = { metadata: { annotations: { [name]: null } } }
      const result = await client.mergePatch(tenantObjects, object.metadata, patch)
      if (result.kind !== 'notFound') expectOk('cannot remove an annotation of a Tenant', result)
    },
    record: (occurrence) => events.record(occurrence),
    check: () => view.check(),
    async stop() {
      await Promise.all([view.stop(), providers.stop()])
    },
  }
}

/** Adds the finalizer, provided that the Tenant still has the resourceVersion that was read. */
async function addFinalizer(client: KubeClient, object: TenantObject): Promise<TenantObject | undefined> {
  const { finalizers = [], resourceVersion } = object.metadata
  if (finalizers.includes(tenantFinalizer)) return object
  const patch = { metadata: { resourceVersion, finalizers: [...finalizers, tenantFinalizer] } }
  const result = await client.mergePatch(tenantObjects, object.metadata, patch)
  // The Tenant has changed. The event of that change queues the Tenant again.
  if (result.kind === 'conflict' || result.kind === 'notFound') return undefined
  const { metadata } = expectOk('cannot add the finalizer to a Tenant', result)
  const held = {
    ...object.metadata,
    ...(metadata.resourceVersion && { resourceVersion: metadata.resourceVersion }),
    ...(metadata.finalizers && { finalizers: metadata.finalizers }),
  }
  return { ...object, metadata: held }
}

async function removeFinalizer(client: KubeClient, object: TenantObject): Promise<boolean> {
  const { finalizers = [], resourceVersion } = object.metadata
  const patch = {
    metadata: { resourceVersion, finalizers: finalizers.filter((each) => each !== tenantFinalizer) },
  }
  const result = await client.mergePatch(tenantObjects, object.metadata, patch)
  if (result.kind === 'conflict') return false
  if (result.kind !== 'notFound') expectOk('cannot remove the finalizer of a Tenant', result)
  return true
}
