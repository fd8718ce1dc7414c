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

/** `text` is null if a declaration is no longer in force. */
type DeclarationChange = Omit<StoredDeclaration, 'text'> & { readonly text: string | null }

/** Lists declarations that changed after a version. */
export async function listDeclarationChanges(pool: Pool, sinceVersion: number): Promise<DeclarationChange[]> {
