import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import type { KeyRing } from '../key-ring.ts'
import { type ApiKeyScope, type TenantSpec } from '../model.ts'
import type { DeclarationRules, StoredDeclaration } from '../providers/provider-object.ts'
import { findStoredProviders, listProviderNames } from '../providers/provider-store.ts'
import { apiKeyEntry, apiKeySecretPlace, secretNamesOf } from '../secret-manifest.ts'
import { acceptedProviderNames, neutralProviderName } from '../spec-providers.ts'
import type { apiKeys, tenantSecrets, tenants } from '../tables.ts'
import type { CallbackSuspension, TenantData } from '../tenant-data.ts'
import { tenantIdOfUid } from '../tenant-object.ts'
import type { SecretRead, TenantManifest, TenantSecrets } from '../tenant-source.ts'
import { findKeysOfOthers, findSlugFacts, findStoredTenant, isTenantIdKnown } from '../tenant-store.ts'
import { hashApiKey, keyText } from './plan-keys.ts'
import type { RandomBytes } from './plan-secrets.ts'

export type StoredKey = Pick<typeof apiKeys.$inferSelect, 'name' | 'prefix' | 'expiresAtMs' | 'endsAtMs'> & {
  readonly sha256Hex: string
  readonly scopes: readonly ApiKeyScope[]
}

/** `value` is undefined if the key ring cannot decrypt it. */
export type StoredSecret = Pick<
  typeof tenantSecrets.$inferSelect,
  'field' | 'ordinal' | 'keyId' | 'createdAtMs'
> & { readonly value: string | undefined }

export type StoredTenant = Pick<
  typeof tenants.$inferSelect,
  'id' | 'uid' | 'namespace' | 'name' | 'slug' | 'conditions' | 'resourceCreatedAtMs' | 'deletedAtMs'
> & {
  /** Undefined after the data of a deleted tenant was removed. */
  readonly spec: TenantSpec | undefined
  readonly keys: readonly StoredKey[]
  readonly secrets: readonly StoredSecret[]
}

export interface ResourceName {
  readonly namespace: string
  readonly name: string
}

export interface TenantFacts {
  readonly manifest: TenantManifest
  readonly tenantId: TenantId
  readonly stored: StoredTenant | undefined
  readonly slug: {
    readonly holder: (ResourceName & { readonly id: TenantId }) | undefined
    readonly reservation: (ResourceName & { readonly untilMs: number }) | undefined
    /** An older tenant that claims the same slug and has no slug yet. */
    readonly olderClaimant: ResourceName | undefined
  }
  /** Referenced and generated Secrets by name. */
  readonly secrets: ReadonlyMap<string, SecretRead>
  /** SHA-256 (hex) of keys that are in the tenant's Secrets, but belong to another tenant. */
  readonly keysOfOthers: ReadonlySet<string>
  readonly currentKeyId: string
  readonly callbackBounds: CallbackBounds
  readonly callbackSuspension: CallbackSuspension | undefined
  /** Declarations of the providers that are not built in, by the name in the spec. Absent: every name counts as known. */
  readonly declared?: ReadonlyMap<string, StoredDeclaration>
  /** Names of all providers, from which the message about an unknown name suggests one. Empty if every name is known. */
  readonly providerNames?: readonly string[]
  readonly notificationsSuspension: CallbackSuspension | undefined
}

export interface GatherSources {
  readonly pool: Pool
  readonly keyRing: KeyRing
  readonly data: Pick<TenantData, 'findSuspensions'>
  readonly secrets: Pick<TenantSecrets, 'readSecret'>
  readonly random: RandomBytes
  readonly callbackBounds: CallbackBounds
  readonly declarations?: DeclarationRules | undefined
}

/** Writes nothing. @throws when Postgres or the source is unavailable */
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
  const [slug, keysOfOthers, suspensions] = await Promise.all([
    findSlugFacts(pool, wish),
    findKeysOfOthers(pool, tenantId, wantedKeys(manifest, secrets)),
    sources.data.findSuspensions(pool, tenantId),
  ])
  const { currentKeyId } = keyRing
  const declared = await findDeclared(sources, manifest.spec)
  const found = {
    stored,
    slug,
    secrets,
    keysOfOthers,
    ...declared,
    callbackSuspension: suspensions.callback,
    notificationsSuspension: suspensions.notifications,
  }
  return { manifest, tenantId, ...found, currentKeyId, callbackBounds }
}

/** Prefers Provider resources to shipped declarations. Lists all names of providers if a declaration is missing. */
async function findDeclared(
  { pool, declarations }: Pick<GatherSources, 'pool' | 'declarations'>,
  { providers }: TenantSpec,
): Promise<Pick<TenantFacts, 'declared' | 'providerNames'>> {
  if (!declarations) return {}
  const names = providers.map(({ name }) => name).filter((name) => neutralProviderName(name) === undefined)
  const stored = await findStoredProviders(pool, names)
  const declared = new Map(
    names.flatMap((name) => {
      const found = stored.find((each) => each.name === name || each.aliases.includes(name))
      const known = found ?? declarations.findShipped(name)
      return known ? [[name, known]] : []
    }),
  )
  if (declared.size === new Set(names).size) return { declared }
  const all = [...acceptedProviderNames, ...declarations.shippedNames, ...(await listProviderNames(pool))]
  return { declared, providerNames: all }
}

/** Derives an id from the uid. If a tenant already had that id, returns a random one, since Redis or a process can still hold old data. */
async function newTenantId({ pool, random }: GatherSources, uid: string): Promise<TenantId> {
  const first = tenantIdOfUid(uid)
  return (await isTenantIdKnown(pool, first)) ? tenantIdFromBytes(random(16)) : first
}

async function readSecrets(
  source: Pick<TenantSecrets, 'readSecret'>,
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
