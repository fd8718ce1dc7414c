import { type Action, type Actor, actions } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { Pool } from '#internal/storage/index.ts'
import {
  type ApiKeyScope,
  type Condition,
  type TenantSpec,
  type WebhookUrl,
  webhookUrls,
} from '#internal/tenants/index.ts'
import { conflict, invalid, notFound, type Outcome, ok } from './outcome.ts'
import { type Page, type PageRequest, pageFrom, readPage } from './page.ts'
import type { BackofficeParts, DeskParts } from './parts.ts'
import { reachNamespaces, reachTenant, type TenantSelection } from './reach.ts'

/** A tenant in a list. */
export interface TenantSummary {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  /** Null while another tenant holds the slug that the spec asks for. */
  readonly slug: string | null
  readonly displayName: string | null
  readonly isSuspended: boolean
  /** Status of the condition `Ready`. */
  readonly isReady: boolean
  /** Reason of the condition; null while ready. */
  readonly reason: string | null
  readonly createdAtMs: number
}

interface TenantListRequest extends PageRequest, Pick<TenantSelection, 'namespaces'> {
  /** Part of a slug, a name or a display name, in any case; at most 100 characters. */
  readonly search?: string | undefined
}

const searchCharsMax = 100
/** Maximum tenants that one page of a search examines. */
const examinedMax = 5_000

/** Lists tenants by namespace and name. */
async function list(
  parts: DeskParts,
  actor: Actor,
  request: TenantListRequest,
): Promise<Outcome<Page<TenantSummary>>> {
  const page = readPage(request, (text) => (parsePosition(text) === undefined ? undefined : text))
  if (page.kind !== 'ok') return page
  const { search = '', namespaces } = request
  if (search.length > searchCharsMax) return invalid(`A search has at most ${searchCharsMax} characters`)
  const seen = await reachNamespaces(parts, actor, namespaces)
  if (seen.kind !== 'ok') return seen
  const wanted = search.toLowerCase()
  const isMatch = ({ namespace, name, slug, displayName }: TenantRow) =>
    [`${namespace}/${name}`, slug, displayName].some((text) => text?.toLowerCase().includes(wanted))
  const { limit, after } = page.value
  if (seen.value.kind === 'tenant') {
    const row = after === undefined ? await findTenantRow(parts.pool, seen.value.tenantId) : undefined
    return pageFrom(row && isMatch(row) ? [summaryOf(row)] : [], undefined)
  }
  const within = seen.value.kind === 'namespaces' ? seen.value.namespaces : undefined
  const rowsMax = search === '' ? limit + 1 : examinedMax
  const rows = await listTenantRows(parts.pool, { after, namespaces: within, rowsMax })
  const matches = rows.filter(isMatch)
  const items = matches.slice(0, limit)
  const last = matches.length > limit ? items.at(-1) : rows.length === rowsMax ? rows.at(-1) : undefined
  return pageFrom(items.map(summaryOf), last && `${last.namespace}/${last.name}`)
}

function parsePosition(text: string): readonly [namespace: string, name: string] | undefined {
  const [, namespace, name] = /^([-a-z0-9]{1,63})\/([-a-z0-9.]{1,63})$/.exec(text) ?? []
  return namespace === undefined || name === undefined ? undefined : [namespace, name]
}

function summaryOf({ ready, ...row }: TenantRow): TenantSummary {
  const { id, namespace, name, slug, displayName, isSuspended, createdAtMs } = row
  const isReady = ready?.status === 'True'
  const reason = isReady ? null : (ready?.reason ?? 'Unknown')
  return { id, namespace, name, slug, displayName, isSuspended, createdAtMs, isReady, reason }
}

/** Identifies a tenant. */
export type TenantRef =
  | { readonly by: 'id' | 'slug'; readonly text: string }
  /** The first 11 characters of an API key, including `lk_`. The whole key must not be sent. */
  | { readonly by: 'keyPrefix'; readonly text: string }
  | { readonly by: 'name'; readonly namespace: string; readonly name: string }

/** Maximum tenants whose keys share a prefix; each one needs a rights check. */
const sameKeyMax = 20
const keyPrefixForm = /^lk_[\x21-\x7e]{8}$/

/** Finds the one tenant that a reference names. */
async function find(parts: DeskParts, actor: Actor, ref: TenantRef): Promise<Outcome<TenantSummary>> {
  if (ref.by === 'keyPrefix' && !keyPrefixForm.test(ref.text))
    return invalid('Name an API key by its first 11 characters, including lk_')
  const named = ref.by === 'name' ? `${ref.namespace}/${ref.name}` : ref.text
  const reached: TenantId[] = []
  const candidates = await candidatesFor(parts, actor, ref)
  for (const tenantId of candidates.slice(0, sameKeyMax)) {
    const tenant = await reachTenant(parts, actor, { tenantId, named })
    if (tenant.kind === 'ok') reached.push(tenant.value.id)
    else if (tenant.kind !== 'notFound') return tenant
  }
  const [id, another] = reached
  // Beyond the examined tenants there may be one that the actor sees.
  const isCut = candidates.length > sameKeyMax
  if (id === undefined && !isCut) return notFound
  if (id === undefined || isCut || another !== undefined)
    return conflict('Keys of several tenants begin like this: name one by its id')
  const row = await findTenantRow(parts.pool, id)
  return row === undefined ? notFound : ok(summaryOf(row))
}

/** Never empty: a missing tenant takes as many rights checks as an invisible one, see `reachTenant`. */
async function candidatesFor(
  { pool, directory }: BackofficeParts,
  actor: Actor,
  ref: TenantRef,
): Promise<readonly (TenantId | undefined)[]> {
  switch (ref.by) {
    case 'id':
      return [ref.text as TenantId]
    case 'slug':
      return [directory.findTenantBySlug(ref.text)?.id]
    case 'name':
      return [await findTenantIdByName(pool, ref)]
    case 'keyPrefix': {
      // A tenant's key is matched before the cut; a user's rights take one check per tenant.
      const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : undefined
      const ids = await findTenantIdsByKey(pool, { prefix: ref.text, tenantId, rowsMax: sameKeyMax + 1 })
      return ids.length === 0 ? [undefined] : ids
    }
  }
}

/** An API key, without the key. */
export interface TenantKeyView {
  readonly name: string
  readonly scopes: readonly ApiKeyScope[]
  /** First characters of the key; null for keys issued before prefixes were stored. */
  readonly prefix: string | null
  readonly createdAtMs: number
  /** Expiry, or the end of rotation; null for never. */
  readonly endsAtMs: number | null
}

/** A signing secret in use, without its value. */
export interface TenantSecretView {
  /** `callback`, or `provider:card` and so on. */
  readonly field: string
  /** Name of the Kubernetes Secret. */
  readonly secretName: string
  readonly createdAtMs: number
}

/** A tenant with its spec, conditions, keys and secrets. */
export interface TenantDetail extends TenantSummary {
  readonly conditions: readonly Condition[]
  /** The spec, with credentials removed from the callback URL. */
  readonly spec: TenantSpec
  /** Webhook URLs per provider; only paths while no public URL is configured. */
  readonly urls: readonly WebhookUrl[]
  readonly keys: readonly TenantKeyView[]
  readonly secrets: readonly TenantSecretView[]
  /** Undefined unless the callback is suspended. */
  readonly suspendedCallback: { readonly cause: string; readonly sinceMs: number } | undefined
  /** End of the open state of the circuit breaker; undefined while it is closed. */
  readonly breakerUntilMs: number | undefined
}

/** Reads everything about a tenant. */
async function read(parts: DeskParts, actor: Actor, id: TenantId): Promise<Outcome<TenantDetail>> {
  const reached = await reachTenant(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  const record = await readTenantRecord(parts.pool, id)
  if (record === undefined) return notFound
  const { spec, keys, secrets, conditions, suspendedCallback, breakerUntilMs } = record
  const callback = { ...spec.callback, url: parts.redactorOf(reached.value).text(spec.callback.url) }
  return ok({
    ...summaryOf(record),
    ...{ conditions, keys, secrets },
    spec: { ...spec, callback },
    urls: webhookUrls(record.slug, spec, parts.publicUrl),
    suspendedCallback: suspendedCallback ?? undefined,
    breakerUntilMs: breakerUntilMs ?? undefined,
  })
}

/** Returns the actor's rights on a tenant, or on all of them, so that pages offer only what is allowed. */
async function permissions(
  parts: DeskParts,
  actor: Actor,
  tenant: TenantId | 'all',
): Promise<Outcome<Readonly<Record<Action, boolean>>>> {
  const reached = tenant === 'all' ? ok('all' as const) : await reachTenant(parts, actor, tenant)
  if (reached.kind !== 'ok') return reached
  const asked = await Promise.all(
    actions.map(async (action) => [action, await parts.access.may(actor, action, reached.value)] as const),
  )
  for (const [, permission] of asked) if (permission.kind === 'unavailable') return permission
  // Every other right needs the right to see.
  const isSeen = asked.some(([action, { kind }]) => action === 'see' && kind === 'allowed')
  const allowed = asked.map(([action, { kind }]) => [action, isSeen && kind === 'allowed'] as const)
  return ok(Object.fromEntries(allowed) as Record<Action, boolean>)
}

/** Use cases of tenants. */
export const tenantCases = { list, find, read, permissions }

interface TenantRow {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  readonly slug: string | null
  readonly displayName: string | null
  readonly isSuspended: boolean
  /** Null before the first reconcile. */
  readonly ready: Pick<Condition, 'status' | 'reason'> | null
  readonly createdAtMs: number
}

interface TenantRecord extends TenantRow {
  readonly conditions: readonly Condition[]
  readonly spec: TenantSpec
  readonly keys: readonly TenantKeyView[]
  readonly secrets: readonly TenantSecretView[]
  readonly suspendedCallback: { readonly cause: string; readonly sinceMs: number } | null
  readonly breakerUntilMs: number | null
}

const ms = (column: string) => `floor(extract(epoch FROM ${column}) * 1000)::bigint`
const columns = `t.id, t.namespace, t.name, t.slug, t.spec ->> 'displayName' AS "displayName", t.suspended AS "isSuspended",
  jsonb_path_query_first(t.conditions, '$[*] ? (@.type == "Ready")') AS ready, ${ms('t.resource_created_at')} AS "createdAtMs"`

// By the index over namespace and name, no locks.
async function listTenantRows(
  pool: Pool,
  {
    after,
    namespaces,
    rowsMax,
  }: { after: string | undefined; namespaces: readonly string[] | undefined; rowsMax: number },
): Promise<readonly TenantRow[]> {
  const { rows } = await pool.query<TenantRow>(
    `SELECT ${columns} FROM tenants t WHERE t.deleted_at IS NULL AND (t.namespace, t.name) > ($1, $2)
       AND ($3::text[] IS NULL OR t.namespace = ANY($3)) ORDER BY t.namespace, t.name LIMIT $4`,
    [...(parsePosition(after ?? '') ?? ['', '']), namespaces ?? null, rowsMax],
  )
  return rows
}

// By primary key, no locks.
async function findTenantRow(pool: Pool, id: TenantId): Promise<TenantRow | undefined> {
  const { rows } = await pool.query<TenantRow>(
    `SELECT ${columns} FROM tenants t WHERE t.id = $1 AND t.deleted_at IS NULL`,
    [id],
  )
  return rows[0]
}

// By an index, no locks.
async function findTenantIdByName(
  pool: Pool,
  { namespace, name }: { readonly namespace: string; readonly name: string },
): Promise<TenantId | undefined> {
  const { rows } = await pool.query<{ id: TenantId }>(
    'SELECT id FROM tenants WHERE namespace = $1 AND name = $2 AND deleted_at IS NULL',
    [namespace, name],
  )
  return rows[0]?.id
}

// By an index, no locks. Ends after `rowsMax` tenants.
async function findTenantIdsByKey(
  pool: Pool,
  { prefix, tenantId, rowsMax }: { prefix: string; tenantId: TenantId | undefined; rowsMax: number },
): Promise<readonly TenantId[]> {
  const { rows } = await pool.query<{ id: TenantId }>(
    `SELECT DISTINCT k.tenant_id AS id FROM api_keys k JOIN tenants t ON t.id = k.tenant_id
     WHERE k.prefix = $1 AND ($2::text IS NULL OR k.tenant_id = $2) AND t.deleted_at IS NULL
       AND coalesce(k.ends_at, 'infinity') > now()
     ORDER BY k.tenant_id LIMIT $3`,
    [prefix, tenantId ?? null, rowsMax],
  )
  return rows.map(({ id }) => id)
}

const keysText = `(SELECT coalesce(json_agg(json_build_object('name', k.name, 'scopes', k.scopes, 'prefix', k.prefix,
    'createdAtMs', ${ms('k.created_at')}, 'endsAtMs', ${ms('least(k.expires_at, k.ends_at)')}) ORDER BY k.name, k.created_at), '[]')
  FROM api_keys k WHERE k.tenant_id = t.id)`
const secretsText = `(SELECT coalesce(json_agg(json_build_object('field', s.field, 'secretName', s.source_name,
    'createdAtMs', ${ms('s.created_at')}) ORDER BY s.field, s.ordinal), '[]')
  FROM tenant_secrets s WHERE s.tenant_id = t.id)`

// One statement by primary keys, no locks.
async function readTenantRecord(pool: Pool, id: TenantId): Promise<TenantRecord | undefined> {
  const { rows } = await pool.query<TenantRecord>(
    `SELECT ${columns}, t.spec, t.conditions, ${keysText} AS keys, ${secretsText} AS secrets,
       CASE WHEN l.suspended_at IS NOT NULL
         THEN json_build_object('cause', l.suspended_cause, 'sinceMs', ${ms('l.suspended_at')}) END AS "suspendedCallback",
       CASE WHEN l.breaker_until > now() THEN ${ms('l.breaker_until')} END AS "breakerUntilMs"
     FROM tenants t LEFT JOIN tenant_queues l ON l.tenant_id = t.id WHERE t.id = $1 AND t.deleted_at IS NULL`,
    [id],
  )
  return rows[0]
}
