import type { Pool } from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import { apiKeyEntry, apiKeySecretPlace, secretNamesOf } from '../secret-names.ts'
import type { SecretRead, SecretSource, TenantManifest } from '../source.ts'
import { findKeysOfOthers, findSlugFacts, findStoredTenant } from '../store.ts'
import { tenantIdOfUid } from '../tenant-id.ts'
import type { TenantFacts } from './facts.ts'
import { hashApiKey, keyText } from './plan-keys.ts'

/** Where facts come from. */
export interface GatherSources {
  readonly pool: Pool
  readonly keyRing: KeyRing
  readonly secrets: SecretSource
}

/** Reads all that a tenant's plan is decided from. Writes nothing; fails when Postgres or the source does. */
export async function gatherTenant(sources: GatherSources, manifest: TenantManifest): Promise<TenantFacts> {
  const { pool, keyRing } = sources
  const tenantId = tenantIdOfUid(manifest.uid)
  const stored = await findStoredTenant(pool, keyRing, manifest.uid)
  const secrets = await readSecrets(sources.secrets, manifest)
  const wish = {
    id: tenantId,
    uid: manifest.uid,
    slug: manifest.spec.slug,
    createdAtMs: manifest.createdAtMs ?? stored?.resourceCreatedAtMs,
  }
  const [slug, keysOfOthers] = await Promise.all([
    findSlugFacts(pool, wish),
    findKeysOfOthers(pool, tenantId, wantedKeys(manifest, secrets)),
  ])
  return { manifest, tenantId, stored, slug, secrets, keysOfOthers, currentKeyId: keyRing.currentKeyId }
}

async function readSecrets(
  source: SecretSource,
  manifest: TenantManifest,
): Promise<ReadonlyMap<string, SecretRead>> {
  const names = secretNamesOf(manifest)
  const reads = await Promise.all(names.map((name) => source.readSecret(manifest.namespace, name)))
  return new Map(names.flatMap((name, index) => (reads[index] === undefined ? [] : [[name, reads[index]]])))
}

function wantedKeys(manifest: TenantManifest, secrets: ReadonlyMap<string, SecretRead>): string[] {
  return manifest.spec.apiKeys.flatMap((entry) => {
    const read = secrets.get(apiKeySecretPlace(manifest, entry).name)
    const value = read?.kind === 'found' ? read.secret.values.get(apiKeyEntry) : undefined
    return value === undefined ? [] : [hashApiKey(keyText(value))]
  })
}
