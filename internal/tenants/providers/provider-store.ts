import { and, asc, eq, gt, isNotNull, isNull, sql } from 'drizzle-orm'
import { orm, type Pool, type PoolClient } from '#internal/storage/index.ts'
import type { ResourceName } from '../reconcile/gather-tenant.ts'
import { raiseDirectoryVersion } from '../reconcile/tenant-writes.ts'
import { providers, tenants } from '../tables.ts'
import type { StoredDeclaration } from './provider-object.ts'

export const providersMax = 500

export interface StoredProvider extends StoredDeclaration {
  readonly uid: string
  readonly generation: number
}

const columns = {
  name: providers.name,
  uid: providers.uid,
  generation: providers.generation,
  aliases: providers.aliases,
  isUnverified: providers.isUnverified,
  text: sql<string>`${providers.declaration}`,
}

export async function listStoredProviders(pool: Pool): Promise<StoredProvider[]> {
  return await orm(pool)
    .select(columns)
    .from(providers)
    .where(isNotNull(providers.declaration))
    .orderBy(asc(providers.name))
    .limit(providersMax)
}

/** `text` is null if a declaration is no longer active. */
type DeclarationChange = Omit<StoredDeclaration, 'text'> & { readonly text: string | null }

/** Lists declarations that changed after a version. */
export async function listDeclarationChanges(pool: Pool, sinceVersion: number): Promise<DeclarationChange[]> {
  const { name, aliases, isUnverified, declaration: text, version } = providers
  return await orm(pool)
    .select({ name, aliases, isUnverified, text })
    .from(providers)
    .where(gt(version, sinceVersion))
}

/** Active declarations by name and alias. A change of any declaration creates another map. */
export type Declarations = ReadonlyMap<string, StoredDeclaration>

/** Declarations of an installation without Providers. */
export const emptyDeclarations: Declarations = new Map()

/** Returns the declarations after changes; the same object if there are no changes. Pure. */
export function withChanges(before: Declarations, changes: readonly DeclarationChange[]): Declarations {
  if (changes.length === 0) return before
  const own = new Map([...before.values()].map((each) => [each.name, each]))
  for (const { text, ...rest } of changes) {
    if (text === null) own.delete(rest.name)
    else own.set(rest.name, { ...rest, text })
  }
  const all = [...own.values()]
  const aliases = all.flatMap((each) => each.aliases.map((alias) => [alias, each] as const))
  // Names take precedence over aliases.
  return new Map([...aliases, ...all.map((each) => [each.name, each] as const)])
}

export async function findStoredProviders(
  pool: Pool,
  names: readonly string[],
): Promise<StoredDeclaration[]> {
  if (names.length === 0) return []
  const { name, aliases, declaration } = providers
  const wanted = sql`${sql.param(names)}::text[]`
  return await orm(pool)
    .select(columns)
    .from(providers)
    .where(and(isNotNull(declaration), sql`(${name} = ANY(${wanted}) OR ${aliases} && ${wanted})`))
}

/** Lists the names and aliases of all active declarations. */
export async function listProviderNames(pool: Pool): Promise<string[]> {
  const { name, aliases, declaration } = providers
  const rows = await orm(pool)
    .select({ name, aliases })
    .from(providers)
    .where(isNotNull(declaration))
    .limit(providersMax)
  return rows.flatMap((each) => [each.name, ...each.aliases])
}

/** Stores a declaration, which becomes active, and raises the version of the directory. Idempotent. */
export async function putProvider(client: PoolClient, provider: StoredProvider): Promise<void> {
  const { name, uid, generation, isUnverified, text } = provider
  const aliases = [...provider.aliases]
  const version = await raiseDirectoryVersion(client)
  const next = { uid, generation, aliases, isUnverified, declaration: text, version, updatedAtMs: sql`now()` }
  await orm(client)
    .insert(providers)
    .values({ name, ...next })
    .onConflictDoUpdate({ target: providers.name, set: next })
}

/** Stores a newer generation of a Provider whose declaration is unchanged. Raises no version, since directories do not read it. */
export async function noteGeneration(
  client: PoolClient,
  { name, uid, generation }: StoredProvider,
): Promise<void> {
  await orm(client).update(providers).set({ uid, generation }).where(eq(providers.name, name))
}

/** Deactivates a declaration, and raises the version of the directory. Idempotent. */
export async function removeProvider(client: PoolClient, name: string): Promise<void> {
  const version = await raiseDirectoryVersion(client)
  await orm(client)
    .update(providers)
    .set({ declaration: null, version, updatedAtMs: sql`now()` })
    .where(eq(providers.name, name))
}

/** Lists tenants that name one of the providers, by namespace and name. Reads all tenants. */
export async function listResourceNames(
  pool: Pool,
  names: readonly string[],
  rowsMax: number,
): Promise<ResourceName[]> {
  const { namespace, name, spec, deletedAtMs } = tenants
  const isNamed = sql`EXISTS (SELECT FROM jsonb_array_elements(${spec} -> 'providers') each
    WHERE each ->> 'name' = ANY(${sql.param(names)}::text[]))`
  return await orm(pool)
    .select({ namespace, name })
    .from(tenants)
    .where(and(isNull(deletedAtMs), isNamed))
    .orderBy(asc(namespace), asc(name))
    .limit(rowsMax)
}
