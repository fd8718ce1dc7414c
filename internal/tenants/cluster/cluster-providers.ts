import {
  expectOk,
  type KubeClient,
  Reflector,
  type ReflectorTrouble,
  type Transport,
} from '#internal/kube/index.ts'
import type { Health, Logger } from '#internal/telemetry/index.ts'
import { type ProviderObject, type ProviderSource, providerObjects } from '../providers/provider-object.ts'
import { tenantFinalizer } from '../tenant-object.ts'

const troubleLogEvery = 20

/**
 * Starts to watch the Providers of a cluster. Without their definition, or without permission to list them, there are none, and tenants use
 * built-in and shipped ones. The caller must stop the source.
 */
export function startClusterProviders({
  client,
  transport,
  health,
  log,
  statusManager,
}: {
  readonly client: KubeClient
  readonly transport: Transport
  readonly health: Health
  readonly log: Pick<Logger, 'warn'>
  /** Field manager of status writes. */
  readonly statusManager: string
}): ProviderSource & { stop(): Promise<void> } {
  const listeners = new Set<() => void>()
  const reflector = new Reflector<ProviderObject>({
    name: 'providers',
    transport,
    of: providerObjects,
    health,
    selection: {},
    listsWhenCutShort: true,
    onChange: () => {
      for (const listener of listeners) listener()
    },
    onTrouble: (trouble) => reportTrouble(log, trouble),
  })
  return {
    all: () => (reflector.hasSynced() ? [...reflector.cache.values()] : undefined),
    isComplete: () => reflector.hasSynced(),
    owns: ({ uid }) => !uid.startsWith('folder:'),
    follow(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    async hold({ metadata: { name, resourceVersion, finalizers = [] } }) {
      const patch = { metadata: { resourceVersion, finalizers: [...finalizers, tenantFinalizer] } }
      const result = await client.mergePatch(providerObjects, { name }, patch)
      // The Provider has changed. The event of that change starts another pass.
      if (result.kind === 'conflict' || result.kind === 'notFound') return false
      expectOk('cannot add the finalizer to a Provider', result)
      return true
    },
    async release({ metadata: { name, resourceVersion, finalizers = [] } }) {
      const kept = finalizers.filter((each) => each !== tenantFinalizer)
      const patch = { metadata: { resourceVersion, finalizers: kept } }
      const result = await client.mergePatch(providerObjects, { name }, patch)
      if (result.kind === 'conflict' || result.kind === 'notFound') return
      expectOk('cannot remove the finalizer of a Provider', result)
    },
    async applyStatus({ metadata: { name, uid } }, status) {
      const metadata = { name, ...(uid !== undefined && { uid }) }
      const terms = { fieldManager: statusManager, force: true, subresource: 'status' } as const
      const result = await client.apply(providerObjects, { metadata, status }, terms)
      // The Provider was deleted or recreated after it was read.
      if (result.kind === 'notFound' || result.kind === 'conflict') return
      expectOk('cannot write the status of a Provider', result)
    },
    stop: () => reflector.stop(),
  }
}

function reportTrouble(log: Pick<Logger, 'warn'>, trouble: ReflectorTrouble): void {
  if (trouble.kind !== 'sync') return log.warn({ ...trouble }, 'watch of Providers has a problem')
  const { failure, failures } = trouble
  if (failures % troubleLogEvery !== 1) return
  log.warn({ failure: failure.message, failures }, 'Providers cannot be read; those in force stay')
}
