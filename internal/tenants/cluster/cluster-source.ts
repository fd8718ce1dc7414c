import { expectOk, type KubeClient } from '#internal/kube/index.ts'
import type { CheckResult } from '#internal/telemetry/index.ts'
import { generatedNamesOf } from '../secret-manifest.ts'
import { tenantFinalizer, tenantObjects } from '../tenant-object.ts'
import { folderUidPrefix, type TenantSource } from '../tenant-source.ts'
import { startClusterProviders } from './cluster-providers.ts'
import { ClusterSecrets } from './cluster-secrets.ts'
import { ClusterView, type ClusterViewOptions } from './cluster-view.ts'
import { addFinalizer, applyStatus, removeFinalizer } from './object-writes.ts'

/**
 * Starts to watch the Tenants and Secrets of a cluster. The caller must stop the source. `check` is its readiness check, which succeeds after
 * the first complete read; a forbidden namespace does not delay the others.
 */
export function startClusterSource(
  options: Omit<ClusterViewOptions, 'onSecretDeleted'> & {
    readonly client: KubeClient
    readonly events: Pick<TenantSource, 'record'>
    /** User name at the API server. Appears in the command that grants missing permissions. */
    readonly username: string
  },
): TenantSource & { check(): CheckResult; stop(): Promise<void> } {
  const { client, events, username } = options
  const secrets = new ClusterSecrets({ client, known: (place) => view.secret(place), username })
  const view = new ClusterView({ ...options, onSecretDeleted: (place) => secrets.forget(place) })
  const providers = startClusterProviders(options)
  return {
    providers,
    vanishedData: 'keep',
    resumesMovedCallback: false,
    owns: ({ uid }) => !uid.startsWith(folderUidPrefix),
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
    async hold(object) {
      const { finalizers = [] } = object.metadata
      if (finalizers.includes(tenantFinalizer)) return object
      const held = await addFinalizer(client, tenantObjects, object)
      return held && { ...object, metadata: { ...object.metadata, ...held } }
    },
    release: (object) => removeFinalizer(client, tenantObjects, object),
    applyStatus: (object, status) => applyStatus(client, tenantObjects, object, status),
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
