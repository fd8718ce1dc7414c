import type { FolderTenants } from '#cmd/serving/folder-tenants.ts'
import type { Host } from '#cmd/serving/telemetry.ts'
import { poll } from '#internal/dev/index.ts'
import {
  type Directory,
  type LiveTenant,
  listLiveTenants,
  type ProviderObject,
  type SourceProblem,
  type TenantObject,
} from '#internal/tenants/index.ts'

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
 * Waits at most 5 s until the tenants of the folder are applied, and returns the tenants. Readiness fails until all of them have been
 * applied once.
 */
export async function awaitTenants(
  { health }: Host,
  {
    tenants,
    directory,
    tenantsDir,
  }: {
    readonly tenants: FolderTenants
    readonly directory: Directory
    readonly tenantsDir: string
  },
): Promise<DevTenants> {
  let passedAtMs = Number.POSITIVE_INFINITY
  const { source, pool } = tenants
  const isInForce = () => tenants.isApplied() && Date.now() - directory.ageMs(Date.now()) > passedAtMs
  health.addCheck('tenants folder', () =>
    isInForce() ? { ok: true } : { ok: false, reason: `the tenants of ${tenantsDir} are not applied yet` },
  )
  await poll(() => tenants.isApplied() || undefined, { deadlineMs: inForceMsMax })
  passedAtMs = Date.now()
  directory.notify()
  await poll(() => isInForce() || undefined, { deadlineMs: inForceMsMax })
  const live = await listLiveTenants(pool, tenantsMax)
  return {
    inForce: live.filter((each) => each.slug !== null && source.owns(each)),
    complaints: [
      ...source.problems().map(describeProblem),
      ...[...source.tenants()].flatMap(describeNotReady),
      ...(source.providers.all() ?? []).flatMap(describeProviderNotReady),
    ],
  }
}

function describeProblem({ file, line, field, message }: SourceProblem): string {
  return [`${file}${line === undefined ? '' : `:${line}`}`, field, message].filter(Boolean).join(' ')
}

function describeNotReady({ metadata: { namespace, name }, status }: TenantObject): string[] {
  const ready = status?.conditions?.[0]
  if (ready === undefined || ready.status === 'True') return []
  return [`${namespace}/${name}: ${ready.reason}, ${ready.message}`]
}

function describeProviderNotReady({ metadata: { name }, status }: ProviderObject): string[] {
  const ready = status?.conditions?.[0]
  if (ready === undefined || ready.status === 'True') return []
  return [`Provider ${name}: ${ready.reason}, ${ready.message}`]
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
