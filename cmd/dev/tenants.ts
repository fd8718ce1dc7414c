import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { openPostgres } from '#cmd/serving/stores.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { tenantPartsOf } from '#cmd/serving/tenant-data.ts'
import { systemClock } from '#internal/base/index.ts'
import { poll } from '#internal/dev/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import type { RedisConnection, StoreAddress } from '#internal/storage/index.ts'
import {
  type Directory,
  FolderSource,
  type KeyRing,
  type LiveTenant,
  listLiveTenants,
  notifyDirectories,
  type SourceProblem,
  TenantController,
} from '#internal/tenants/index.ts'

/** Options of `startDevTenants`. */
export interface DevTenantsOptions {
  readonly database: StoreAddress
  readonly redis: RedisConnection
  readonly tenantsDir: string
  readonly dataDir: string
  readonly keyRing: KeyRing
  readonly directory: Directory
  /** Replaces `http://sink.localhost` in callback URLs. */
  readonly sinkUrl: string
  readonly callbackBounds: CallbackBounds
}

/** Tenants and problems of the tenants folder after the start of the server. */
export interface DevTenants {
  readonly inForce: readonly LiveTenant[]
  /** Problems of manifests, and of tenants that are not Ready, as one sentence each. */
  readonly complaints: readonly string[]
}

const tenantsMax = 100_000
/** Maximum wait in ms until the tenants of the folder are applied. They are never applied while Postgres is unavailable. */
const inForceMsMax = 5000
/** Host name that a manifest uses for the sink in a callback URL, because the sink's port is known only after the start. */
const sinkHost = 'sink.localhost'

/**
 * Reconciles the tenants of the tenants folder until the scope closes. Readiness fails until all of them have been applied once. Returns
 * the tenants after the first application, or after 5 s.
 */
export async function startDevTenants(host: Host, options: DevTenantsOptions): Promise<DevTenants> {
  const { log, health } = host
  const { directory, keyRing, redis, callbackBounds } = options
  const source = new FolderSource({
    tenantsDir: options.tenantsDir,
    secretsDir: join(options.dataDir, 'secrets'),
    callbackUrl: sinkAddress(options.sinkUrl),
    log,
    health,
  })
  const pool = await openPostgres(host, 'postgres of the tenants folder', {
    ...options.database,
    applicationName: 'latchkey-dev',
    connectionsMax: 2,
    queryTimeoutMs: 5000,
  })
  const controller = new TenantController({
    ...tenantPartsOf(pool, redis),
    ...{ source, keyRing, log, clock: systemClock, random: randomBytes, actor: 'dev', health },
    callbackBounds,
    ...{ resyncMs: 30_000, sweepMs: 30_000, retryMsMax: 1_500 },
    onChanged: () => {
      directory.notify()
      return notifyDirectories(redis)
    },
  })
  let passedAtMs = Number.POSITIVE_INFINITY
  const isInForce = () => controller.inForce() && Date.now() - directory.ageMs(Date.now()) > passedAtMs
  health.addCheck('tenants folder', () =>
    isInForce()
      ? { ok: true }
      : { ok: false, reason: `the tenants of ${options.tenantsDir} are not applied yet` },
  )
  await host.scope.open({
    name: 'tenants folder',
    open: () => controller.start(),
    close: () => controller.stop(),
  })
  passedAtMs = Date.now()
  directory.notify()
  await poll(() => isInForce() || undefined, { deadlineMs: inForceMsMax })
  const live = await listLiveTenants(pool, tenantsMax)
  return {
    inForce: live.filter((each) => each.slug !== null && source.owns(each)),
    complaints: [
      ...source.problems().map(describeProblem),
      ...[...controller.conditions()].flatMap(describeNotReady),
    ],
  }
}

function describeProblem({ file, line, field, message }: SourceProblem): string {
  return [`${file}${line === undefined ? '' : `:${line}`}`, field, message].filter(Boolean).join(' ')
}

type NamedConditions = [string, readonly { status: string; reason: string; message: string }[]]

function describeNotReady([name, [ready]]: NamedConditions): string[] {
  return ready === undefined || ready.status === 'True' ? [] : [`${name}: ${ready.reason}, ${ready.message}`]
}

/** Returns a function that replaces `http://sink.localhost` in a callback URL with the sink's address and keeps path and query. */
export function sinkAddress(sinkUrl: string): (callbackUrl: string) => string {
  return (callbackUrl) => {
    const url = URL.parse(callbackUrl)
    if (url?.protocol !== 'http:' || url.hostname !== sinkHost) return callbackUrl
    url.host = new URL(sinkUrl).host
    return url.href
  }
}
