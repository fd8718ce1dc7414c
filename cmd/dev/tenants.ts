import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import type { Telemetry } from '#cmd/api/telemetry.ts'
import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { createPool } from '#internal/storage/index.ts'
import {
  createFolderSource,
  createTenantController,
  type Directory,
  type KeyRing,
  type TenantSource,
} from '#internal/tenants/index.ts'

/** What keeping the folder's tenants in force takes. */
export interface DevTenantsOptions {
  readonly databaseUrl: string
  readonly tenantsDir: string
  readonly dataDir: string
  readonly keyRing: KeyRing
  readonly directory: Directory
}

/** Keeps the tenants of the folder in force until the scope ends; readiness waits for them to be so for the first time. */
export async function startDevTenants(
  options: DevTenantsOptions,
  telemetry: Telemetry,
  scope: Scope,
): Promise<TenantSource> {
  const { log, health } = telemetry
  const { directory, keyRing } = options
  const source = createFolderSource({
    tenantsDir: options.tenantsDir,
    secretsDir: join(options.dataDir, 'secrets'),
  })
  const pool = await scope.open({
    name: 'postgres of the tenants folder',
    open: () =>
      createPool({
        url: options.databaseUrl,
        applicationName: 'latchkey-dev',
        connectionsMax: 2,
        queryTimeoutMs: 5000,
        connectTimeoutMs: 2000,
      }),
    close: (opened) => opened.end(),
  })
  const controller = createTenantController({
    ...{ source, pool, keyRing, log, clock: systemClock, random: randomBytes, actor: 'dev' },
    onChanged: async () => directory.notify(),
  })
  let passedAtMs = Number.POSITIVE_INFINITY
  health.addCheck('tenants folder', () => {
    const lookedAtMs = Date.now() - directory.ageMs(Date.now())
    if (controller.inForce() && lookedAtMs > passedAtMs) return { ok: true }
    return { ok: false, reason: `the tenants of ${options.tenantsDir} are not in force yet` }
  })
  await scope.open({
    name: 'tenants folder',
    open: () => controller.start(),
    close: () => controller.stop(),
  })
  passedAtMs = Date.now()
  directory.notify()
  return source
}
