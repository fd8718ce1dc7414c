import { join } from 'node:path'
import { tenantData } from '#cmd/serving/tenant-data.ts'
import { systemClock } from '#internal/base/index.ts'
import { declarationRules } from '#internal/providers/index.ts'
import { createPool, migrate } from '#internal/storage/index.ts'
import { FolderSource, parseKeyRing, TenantController } from '#internal/tenants/index.ts'
import { keyRing } from './processes.ts'

/** Migrates a new database and applies the manifests of one or several files, as the operator does. */
export async function putInForce(
  databaseUrl: string,
  dir: string,
  yaml: string | readonly string[],
): Promise<void> {
  const bounds = { connectionsMax: 2, queryTimeoutMs: 10_000, connectTimeoutMs: 5000 }
  const pool = createPool({ url: databaseUrl, applicationName: 'bench', ...bounds })
  const log = { info: () => undefined, warn: console.warn, error: console.error }
  const ring = parseKeyRing(keyRing)
  if (ring.kind === 'invalid') throw new Error(ring.message)
  await migrate(pool, { log })
  for (const [index, text] of [yaml].flat().entries())
    await Bun.write(join(dir, `tenants/bench-${index}.yaml`), text)
  await new TenantController({
    source: new FolderSource({ tenantsDir: join(dir, 'tenants'), secretsDir: join(dir, 'secrets'), log }),
    data: tenantData,
    declarations: declarationRules,
    pool,
    keyRing: ring.keyRing,
    clock: systemClock,
    log,
    actor: 'bench',
    callbackBounds: { cidrsMax: ['127.0.0.0/8'], ports: 'any' },
    random: (count) => crypto.getRandomValues(new Uint8Array(count)),
    onChanged: async () => undefined,
    onPurge: async () => undefined,
  }).runOnce()
  await pool.end()
}
