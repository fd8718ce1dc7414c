import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import { apiKeyEntry, apiKeySecretPlace, secretNamesOf } from '../secret-names.ts'
import type { SecretRead, SecretSource, TenantManifest } from '../source.ts'
import {
  findCallbackSuspension,
  findKeysOfOthers,
  findSlugFacts,
  findStoredTenant,
  isTenantIdKnown,
} from '../store.ts'
import { tenantIdOfUid } from '../tenant-id.ts'
import type { TenantFacts } from './facts.ts'
import { hashApiKey, keyText } from './plan-keys.ts'
import type { RandomBytes } from './plan-secrets.ts'

/** Where facts come from. */
export interface GatherSources {
  readonly pool: Pool
  readonly keyRing: KeyRing
  readonly secrets: SecretSource
  /** For the id of a tenant whose first one was used up. */
  readonly random: RandomBytes
  /** Platform limits on callback networks and ports. */
  readonly callbackBounds: CallbackBounds
}

/** Reads all that a tenant's plan is decided from. Writes nothing; fails when Postgres or the source does. */
export async function gatherTenant(sources: GatherSources, manifest: TenantManifest): Promise<TenantFacts> {
  const { pool, keyRing, callbackBounds } = sources
  const stored = await findStoredTenant(pool, keyRing, manifest.uid)
  const tenantId = stored?.id ?? (await newTenantId(sources, manifest.uid))
  const secrets = await readSecrets(sources.secrets, manifest)
  const wish = {
    id: tenantId,
    uid: manifest.uid,
    slug: manifest.spec.slug,
    createdAtMs: manifest.createdAtMs ?? stored?.resourceCreatedAtMs,
  }
  const [slug, keysOfOthers, callbackSuspension] = await Promise.all([
    findSlugFacts(pool, wish),
    findKeysOfOthers(pool, tenantId, wantedKeys(manifest, secrets)),
    findCallbackSuspension(pool, tenantId),
  ])
  const { currentKeyId } = keyRing
  const found = { stored, slug, secrets, keysOfOthers, callbackSuspension }
  return { manifest, tenantId, ...found, currentKeyId, callbackBounds }
}

/**
 * The uid's own id. Where a tenant had it whose data went with it: one that nobody ever had, since Redis and processes that
 * have not heard of the deletion may still know things under the old one.
 */
async function newTenantId({ pool, random }: GatherSources, uid: string): Promise<TenantId> {
  const first = tenantIdOfUid(uid)
  return (await isTenantIdKnown(pool, first)) ? tenantIdFromBytes(random(16)) : first
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
