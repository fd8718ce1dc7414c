import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { systemClock } from '#internal/base/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import type { Pool, RedisConnection, StoreAddress } from '#internal/storage/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import {
  type Directory,
  type FolderOptions,
  FolderSource,
  fenceName,
  type KeyRing,
  LockElection,
  type LockElectionEvent,
  notifyDirectories,
  TenantController,
} from '#internal/tenants/index.ts'
import { openPostgres } from './stores.ts'
import type { Host } from './telemetry.ts'
import { tenantPartsOf } from './tenant-data.ts'

export interface FolderTenantsOptions extends Pick<FolderOptions, 'callbackUrl' | 'rules'> {
  readonly database: StoreAddress
  readonly redis: RedisConnection
  readonly tenantsDir: string
  /** Folder in which the folder of generated Secrets is created. */
  readonly dataDir: string
  readonly keyRing: KeyRing
  /** Resolves when the key ring has decrypted a stored secret. A leader replaces secrets that it cannot decrypt. */
  readonly keyRingOpened: Promise<void>
  readonly directory: Directory
  readonly callbackBounds: CallbackBounds
  readonly publicUrl?: string | undefined
  /** Called when a Provider of the folder is applied as its manifest states. Must not throw. */
  readonly onProviderInForce?: ((name: string, vectorsPassed: number) => void) | undefined
}

export interface FolderTenants {
  readonly source: FolderSource
  readonly pool: Pool
  /** True if this process reconciles the tenants of the folder and has applied all of them. */
  isApplied(): boolean
}

/** Advisory lock of the leader election. */
const electionLock = 7_260_115
/** Maximum time in ms to wait for running reconciliations. */
const stopMsMax = 15_000

/**
 * Reconciles the tenants of a folder of manifests until the scope closes, in one of the processes that share the database: they elect a
 * leader.
 */
export async function openFolderTenants(host: Host, options: FolderTenantsOptions): Promise<FolderTenants> {
  const { log, health, scope } = host
  const { tenantsDir, dataDir, callbackUrl, rules, directory, keyRing, redis } = options
  const source = new FolderSource({
    tenantsDir,
    secretsDir: join(dataDir, 'secrets'),
    log,
    health,
    rules,
    callbackUrl,
  })
  const pool = await openPostgres(host, 'postgres of the tenants folder', {
    ...options.database,
    // One connection holds the lock of the election.
    applicationName: 'latchkey-tenants',
    connectionsMax: 3,
    queryTimeoutMs: 5_000,
  })
  const parts = {
    ...tenantPartsOf(pool, redis),
    source,
    keyRing,
    log,
    clock: systemClock,
    random: randomBytes,
    actor: 'operator',
    health,
    callbackBounds: options.callbackBounds,
    publicUrl: options.publicUrl,
    onProviderInForce: options.onProviderInForce,
    resyncMs: 30_000,
    sweepMs: 30_000,
    retryMsMax: 1_500,
    onChanged: () => {
      directory.notify()
      return notifyDirectories(redis)
    },
  }
  const led: { controller?: TenantController } = {}
  showFolder(host, source, led)
  const openElection = () =>
    scope.open({
      name: 'election',
      open: () =>
        new LockElection({
          pool,
          lock: electionLock,
          fenceName,
          health,
          lead: async (leadership) => {
            led.controller = new TenantController({ ...parts, leadership })
            await lead(led.controller, leadership.signal).finally(() => delete led.controller)
          },
          onEvent: (event) => reportElection(log, event),
        }),
      close: (election) => election.stop(),
      closeMsMax: stopMsMax,
    })
  // Processes that do not lead also read the folder, so that its problems are logged before they lead.
  await source.refresh()
  void options.keyRingOpened
    .then(() => (scope.signal.aborted ? undefined : openElection()))
    .catch((error: unknown) => scope.stop(error))
  return { source, pool, isApplied: () => led.controller?.inForce() === true }
}

async function lead(controller: TenantController, signal: AbortSignal): Promise<void> {
  try {
    await controller.start()
    const over = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => over.resolve(), { once: true })
    if (!signal.aborted) await over.promise
  } finally {
    await controller.stop()
  }
}

function showFolder(
  { metrics }: Host,
  source: FolderSource,
  led: { readonly controller?: TenantController },
): void {
  const { gauge } = unlabelled(metrics)
  gauge(
    'latchkey_tenants_folder_leading_count',
    '1 while this process reconciles the tenants of the folder; otherwise 0.',
    () => (led.controller ? 1 : 0),
  )
  gauge(
    'latchkey_tenants_folder_problems_count',
    'Problems of the manifests in the tenants folder, each of which the log of the reconciling process describes; otherwise 0.',
    () => (led.controller ? source.problems().length : 0),
  )
  gauge(
    'latchkey_tenants_folder_kept_count',
    'Tenants in force without a manifest in the folder, as the reconciling process sees them; otherwise 0.',
    () => (led.controller ? source.keptCount() : 0),
  )
}

function reportElection(log: Host['log'], event: LockElectionEvent): void {
  if (event.kind === 'leading') log.info({ fence: event.fence }, 'reconciling the tenants of the folder')
  else if (event.kind === 'lost') log.warn({ fence: event.fence, cause: event.error }, 'leadership lost')
  else log.warn({ cause: event.error }, 'leader election attempt failed; retrying')
}
