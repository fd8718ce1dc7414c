import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Telemetry } from '#cmd/api/telemetry.ts'
import { openPostgres } from '#cmd/serving/stores.ts'
import { systemClock } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import { resumeCallback, tellForwarders } from '#internal/events/index.ts'
import type { Scope } from '#internal/process/index.ts'
import type { RedisConnection, StoreAddress } from '#internal/storage/index.ts'
import {
  type Condition,
  createFolderSource,
  createTenantController,
  type Directory,
  type KeyRing,
  type LiveTenant,
  listLiveTenants,
  type SourceProblem,
  type SourceState,
  type TenantManifest,
  type TenantSource,
  tellDirectories,
} from '#internal/tenants/index.ts'
import { forgetMeters } from '#internal/usage/index.ts'

/** Inputs of the folder's tenants. */
export interface DevTenantsOptions {
  readonly database: StoreAddress
  readonly redis: RedisConnection
  readonly tenantsDir: string
  readonly dataDir: string
  readonly keyRing: KeyRing
  readonly directory: Directory
  readonly sinkUrl: string
  readonly callbackBounds: CallbackBounds
}

/** The folder's tenants at a moment. */
export interface DevTenants {
  /** Those in force, also where the folder has changed since. */
  readonly inForce: readonly LiveTenant[]
  /** Reasons why the folder is not in force as it stands, one sentence each. */
  readonly complaints: readonly string[]
}

const tenantsMax = 100_000
/** Bound of the welcome's wait for the first tenants: the API runs already, and without Postgres there may be none. */
const inForceMsMax = 5000
/** Host that stands for the sink in a manifest's callback, since the sink's port is known only at the start. */
const sinkHost = 'sink.localhost'

/**
 * Keeps the folder's tenants in force until the scope ends; readiness waits until they are so for the first time. Returns them as they
 * are then.
 */
export async function startDevTenants(
  options: DevTenantsOptions,
  telemetry: Telemetry,
  scope: Scope,
): Promise<DevTenants> {
  const { log, health } = telemetry
  const { directory, keyRing, redis, callbackBounds } = options
  const folder = createFolderSource({
    tenantsDir: options.tenantsDir,
    secretsDir: join(options.dataDir, 'secrets'),
  })
  const source = withSinkAddress(folder, options.sinkUrl)
  const pool = await openPostgres(
    'postgres of the tenants folder',
    {
      ...options.database,
      applicationName: 'latchkey-dev',
      connectionsMax: 2,
      queryTimeoutMs: 5000,
    },
    telemetry,
    scope,
  )
  const controller = createTenantController({
    ...{ source, pool, keyRing, log, clock: systemClock, random: randomBytes, actor: 'dev', health },
    callbackBounds,
    onChanged: () => {
      directory.notify()
      return tellDirectories(redis)
    },
    onPurge: (tenantId) => forgetMeters(redis, tenantId),
    onCallbackMoved: async (tenantId) => {
      if (await resumeCallback(pool, tenantId)) await tellForwarders(redis, [tenantId])
    },
  })
  let passedAtMs = Number.POSITIVE_INFINITY
  const isInForce = () => controller.inForce() && Date.now() - directory.ageMs(Date.now()) > passedAtMs
  health.addCheck('tenants folder', () =>
    isInForce()
      ? { ok: true }
      : { ok: false, reason: `the tenants of ${options.tenantsDir} are not in force yet` },
  )
  await scope.open({
    name: 'tenants folder',
    open: () => controller.start(),
    close: () => controller.stop(),
  })
  passedAtMs = Date.now()
  directory.notify()
  await poll(() => isInForce() || undefined, { deadlineMs: inForceMsMax })
  const live = await listLiveTenants(pool, source.uidPrefix, tenantsMax)
  const { problems } = await source.read()
  return {
    inForce: live.filter(({ slug }) => slug !== null),
    complaints: [...problems.map(describeProblem), ...[...controller.conditions()].flatMap(describeNotReady)],
  }
}

function describeProblem({ file, line, field, message }: SourceProblem): string {
  return [`${file}${line === undefined ? '' : `:${line}`}`, field, message].filter(Boolean).join(' ')
}

function describeNotReady([name, [ready]]: [string, readonly Condition[]]): string[] {
  return ready === undefined || ready.status === 'True' ? [] : [`${name}: ${ready.reason}, ${ready.message}`]
}

/** Wraps a source: replaces `http://sink.localhost` in each callback by the sink's address; the path stays. */
export function withSinkAddress(source: TenantSource, sinkUrl: string): TenantSource {
  let last: { readonly from: SourceState; readonly to: SourceState } | undefined
  return {
    uidPrefix: source.uidPrefix,
    async read() {
      const from = await source.read()
      // Returns the same object for an unchanged state, as the source does.
      if (last?.from !== from)
        last = { from, to: { ...from, tenants: from.tenants.map((each) => fillIn(each, sinkUrl)) } }
      return last.to
    },
    readSecret: (namespace, name) => source.readSecret(namespace, name),
    writeSecret: (secret) => source.writeSecret(secret),
    onHint: (listener) => source.onHint(listener),
  }
}

function fillIn(manifest: TenantManifest, sinkUrl: string): TenantManifest {
  const { callback } = manifest.spec
  const url = URL.parse(callback.url)
  if (url?.protocol !== 'http:' || url.hostname !== sinkHost) return manifest
  url.host = new URL(sinkUrl).host
  return { ...manifest, spec: { ...manifest.spec, callback: { ...callback, url: url.href } } }
}
