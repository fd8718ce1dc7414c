import { and, asc, eq, lte, sql } from 'drizzle-orm'
import type { TenantId } from '#internal/base/index.ts'
import { orm, type Pool, purgeByKey, type RemovedRows, withTx } from '#internal/storage/index.ts'
import { savedViews as table } from './tables.ts'

/** Filter of the event list, saved under a name. */
export interface SavedView {
  /** 1 to 60 characters, unique among the owner's views. */
  readonly name: string
  /** The fields of the filter as the query of a URL; at most 2 000 characters. */
  readonly query: string
}

/** Maximum number of saved views of an actor. */
export const savedViewsMax = 50
/** Maximum length of a view's name. */
export const viewNameCharsMax = 60
/** Maximum length of a view's query. */
export const viewQueryCharsMax = 2_000

const dayMs = 86_400_000
/** Time for which a view is kept after its owner last opened the event list. */
const keptMs = 365 * dayMs
const removedMax = 5_000
/** Serializes the writes of each owner (advisory lock). */
const saveLock = 7_260_116

/**
 * Lists an actor's saved views by name, and marks them as seen, at most once a day. `owner` is a result of `actorName`. @throws errors of
 * Postgres
 */
export async function listSavedViews(
  pool: Pool,
  owner: string,
  nowMs: number,
): Promise<readonly SavedView[]> {
  const db = orm(pool)
  const own = await db
    .select({ name: table.name, query: table.query, seenAt: table.seenAt })
    .from(table)
    .where(eq(table.owner, owner))
    .orderBy(asc(table.name))
    .limit(savedViewsMax)
  const seenBefore = new Date(nowMs - dayMs)
  if (own.some(({ seenAt }) => seenAt <= seenBefore))
    await db
      .update(table)
      .set({ seenAt: new Date(nowMs) })
      .where(and(eq(table.owner, owner), lte(table.seenAt, seenBefore)))
  return own.map(({ name, query }) => ({ name, query }))
}

/** Replaces the owner's view of the same name. Repeating it is safe. @throws errors of Postgres */
export function saveView(
  pool: Pool,
  view: SavedView & {
    readonly owner: string
    /** Tenant whose deletion also deletes the view; null for no tenant. */
    readonly tenantId: TenantId | null
  },
  nowMs: number,
): Promise<
  | { readonly kind: 'saved' }
  | { readonly kind: 'replaced' }
  /** Nothing was saved, because the owner has the maximum number of views. */
  | { readonly kind: 'full' }
> {
  const { owner, name, tenantId, query } = view
  return withTx(pool, async (client) => {
    const db = orm(client)
    // Holds the lock until the commit, so that a concurrent call waits and then counts this view.
    await db.execute(sql`SELECT pg_advisory_xact_lock(${saveLock}::int, hashtext(${owner}))`)
    const own = await db.select({ name: table.name }).from(table).where(eq(table.owner, owner))
    const isNew = own.every((each) => each.name !== name)
    if (isNew && own.length >= savedViewsMax) return { kind: 'full' }
    const changed = { tenantId, query, seenAt: new Date(nowMs) }
    await db
      .insert(table)
      .values({ owner, name, ...changed })
      .onConflictDoUpdate({ target: [table.owner, table.name], set: changed })
    return { kind: isNew ? 'saved' : 'replaced' }
  })
}

/** Returns false if the owner has no view of this name. @throws errors of Postgres */
export async function deleteView(pool: Pool, owner: string, name: string): Promise<boolean> {
  const { rowCount } = await orm(pool)
    .delete(table)
    .where(and(eq(table.owner, owner), eq(table.name, name)))
  return rowCount === 1
}

/** Deletes views that their owner has not seen for a year, at most 5 000 per call. Repeating it is safe. @throws errors of Postgres */
export async function forgetSavedViews(pool: Pool, nowMs: number): Promise<RemovedRows> {
  const { rowCount } = await pool.query(
    `DELETE FROM saved_views WHERE (actor_name, name) IN (
       SELECT actor_name, name FROM saved_views WHERE seen_at <= $1 LIMIT ${removedMax})`,
    [new Date(nowMs - keptMs)],
  )
  const removed = rowCount ?? 0
  return { removed, hasMore: removed === removedMax }
}

/** Deletes the views of a deleted tenant: those of its keys, and those whose filter names it. */
export const purgeSavedViews = purgeByKey('saved_views', ['actor_name', 'name'])
