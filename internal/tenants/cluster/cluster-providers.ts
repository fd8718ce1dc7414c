import { type KubeClient, Reflector, type ReflectorTrouble, type Transport } from '#internal/kube/index.ts'
import type { Health, Logger } from '#internal/telemetry/index.ts'
import { type ProviderObject, type ProviderSource, providerObjects } from '../providers/provider-object.ts'
import { folderUidPrefix } from '../tenant-source.ts'
import { addFinalizer, applyStatus, removeFinalizer } from './object-writes.ts'

const troubleLogEvery = 20

/** Watches Providers. Without their CRD or permission to list them, tenants use built-in and shipped ones. The caller must stop it. */
export function startClusterProviders({
  client,
  transport,
  health,
  log,
}: {
  readonly client: KubeClient
  readonly transport: Transport
  readonly health: Health
  readonly log: Pick<Logger, 'warn'>
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
    owns: ({ uid }) => !uid.startsWith(folderUidPrefix),
    follow(listener) {
      listeners.add(listener)
      return () => void listeners.delete(listener)
    },
    hold: async (object) => (await addFinalizer(client, providerObjects, object)) !== undefined,
    release: async (object) => void (await removeFinalizer(client, providerObjects, object)),
    applyStatus: async (object, status) => void (await applyStatus(client, providerObjects, object, status)),
    stop: () => reflector.stop(),
  }
}

function reportTrouble(log: Pick<Logger, 'warn'>, trouble: ReflectorTrouble): void {
  if (trouble.kind !== 'sync') return log.warn({ ...trouble }, 'watch of Providers has a problem')
  const { failure, failures } = trouble
  if (failures % troubleLogEvery !== 1) return
  log.warn({ failure: failure.message, failures }, 'Providers cannot be read; declarations stay in force')
}
