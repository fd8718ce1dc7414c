import { type Action, type Actor, actions } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import {
  type ApiKeyScope,
  type Condition,
  type TenantSpec,
  type WebhookUrl,
  webhookUrls,
} from '#internal/tenants/index.ts'
import { attempt } from './attempt.ts'
import { conflict, invalid, notFound, type Outcome, ok, type Page, type PageRequest } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachTenant, type Whose } from './reach.ts'
import type { RedactorOf } from './redaction.ts'
import { listTenants } from './tenant-list.ts'
import { findTenantIdByName, findTenantIdsByKey, findTenantRow, readTenantRecord } from './tenant-rows.ts'
import { summaryOf } from './tenant-summary.ts'

/** Which tenant is meant. */
export type TenantRef =
  | { readonly by: 'id' | 'slug'; readonly text: string }
  /** The first 11 characters of an API key, `lk_` included; the whole key is not to be sent. */
  | { readonly by: 'keyPrefix'; readonly text: string }
  | { readonly by: 'name'; readonly namespace: string; readonly name: string }

/** A tenant in a list. */
export interface TenantSummary {
  readonly id: TenantId
  readonly namespace: string
  readonly name: string
  /** null while another tenant holds the one that it wants. */
  readonly slug: string | null
  readonly displayName: string | null
  readonly isSuspended: boolean
  /** Its condition `Ready`. */
  readonly isReady: boolean
  /** Why it is not ready, in one word; null while it is. */
  readonly reason: string | null
  readonly createdAtMs: number
}

/** An API key, without the key. */
export interface TenantKeyView {
  readonly name: string
  readonly scopes: readonly ApiKeyScope[]
  /** How it begins; null for one that was issued before this was kept. */
  readonly prefix: string | null
  readonly createdAtMs: number
  /** When it stops, by expiry or because it was rotated out; null for never. */
  readonly endsAtMs: number | null
}

/** A live signing secret, without its value. */
export interface TenantSecretView {
  /** `callback`, or `provider:card` and its kin. */
  readonly field: string
  /** The Secret that it came from. */
  readonly secretName: string
  readonly createdAtMs: number
}

/** Everything about a tenant. */
export interface TenantDetail extends TenantSummary {
  readonly conditions: readonly Condition[]
  /** What it asks for; the callback's URL without credentials. */
  readonly spec: TenantSpec
  /** What to enter at each provider; only paths while no public URL is configured. */
  readonly urls: readonly WebhookUrl[]
  readonly keys: readonly TenantKeyView[]
  readonly secrets: readonly TenantSecretView[]
  /** Why its deliveries stand still, and since when; undefined while they do not. */
  readonly suspendedCallback: { readonly cause: string; readonly sinceMs: number } | undefined
  /** Until when no delivery is tried because most failed; undefined while the breaker is closed. */
  readonly breakerUntilMs: number | undefined
}

/** Which tenants are listed. */
export interface TenantListRequest extends PageRequest, Pick<Whose, 'namespaces'> {
  /** Part of a slug, a name or a display name, in any case; at most 100 characters. */
  readonly search?: string | undefined
}

/** Tenants, as whoever asks may see them. */
export interface TenantDesk {
  /** By namespace and name. */
  list(actor: Actor, request: TenantListRequest): Promise<Outcome<Page<TenantSummary>>>
  find(actor: Actor, ref: TenantRef): Promise<Outcome<TenantSummary>>
  read(actor: Actor, id: TenantId): Promise<Outcome<TenantDetail>>
  /** What may be done with a tenant, or with all of them: for pages, so that they offer no button in vain. */
  permissions(actor: Actor, tenant: TenantId | 'all'): Promise<Outcome<Readonly<Record<Action, boolean>>>>
}

/** Tenants that may share the beginning of a key and still be told apart by who asks: each is a question to the API server. */
const sameKeyMax = 20
const keyPrefixForm = /^lk_[\x21-\x7e]{8}$/

/** Makes the use cases of tenants. */
export function createTenantDesk(parts: BackofficeParts, redactorOf: RedactorOf): TenantDesk {
  return {
    list: (actor, request) => attempt(parts, () => listTenants(parts, actor, request)),
    find: (actor, ref) => attempt(parts, () => findTenant(parts, actor, ref)),
    read: (actor, id) => attempt(parts, () => readTenant(parts, redactorOf, actor, id)),
    permissions: (actor, tenant) => attempt(parts, () => listPermissions(parts, actor, tenant)),
  }
}

async function findTenant(
  parts: BackofficeParts,
  actor: Actor,
  ref: TenantRef,
): Promise<Outcome<TenantSummary>> {
  if (ref.by === 'keyPrefix' && !keyPrefixForm.test(ref.text))
    return invalid('Name an API key by its first 11 characters, lk_ included')
  const reached = []
  const candidates = await candidatesFor(parts, actor, ref)
  for (const tenantId of candidates.slice(0, sameKeyMax)) {
    const tenant = await reachTenant(parts, actor, { tenantId, named: nameOf(ref) })
    if (tenant.kind === 'ok') reached.push(tenant.value.id)
    else if (tenant.kind !== 'notFound') return tenant
  }
  const [id, another] = reached
  // Behind those that were looked at there may be one that is seen.
  const isCut = candidates.length > sameKeyMax
  if (id === undefined && !isCut) return notFound
  if (id === undefined || isCut || another !== undefined)
    return conflict('Keys of several tenants begin like this: name one by its id')
  const row = await findTenantRow(parts.pool, id)
  return row === undefined ? notFound : ok(summaryOf(row))
}

/** Never none: as much is asked about what does not exist as about what is another's, see `reachTenant`. */
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
      // A tenant is told from others before they are cut off; of a user's the API server has to say each.
      const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : undefined
      const ids = await findTenantIdsByKey(pool, { prefix: ref.text, tenantId, rowsMax: sameKeyMax + 1 })
      return ids.length === 0 ? [undefined] : ids
    }
  }
}

function nameOf(ref: TenantRef): string {
  return ref.by === 'name' ? `${ref.namespace}/${ref.name}` : ref.text
}

async function readTenant(
  parts: BackofficeParts,
  redactorOf: RedactorOf,
  actor: Actor,
  id: TenantId,
): Promise<Outcome<TenantDetail>> {
  const reached = await reachTenant(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  const record = await readTenantRecord(parts.pool, id)
  if (record === undefined) return notFound
  const { spec, keys, secrets, conditions, suspendedCallback, breakerUntilMs } = record
  const callback = { ...spec.callback, url: redactorOf(reached.value).text(spec.callback.url) }
  return ok({
    ...summaryOf(record),
    ...{ conditions, keys, secrets },
    spec: { ...spec, callback },
    urls: webhookUrls(record.slug, spec, parts.publicUrl),
    suspendedCallback: suspendedCallback ?? undefined,
    breakerUntilMs: breakerUntilMs ?? undefined,
  })
}

async function listPermissions(
  parts: BackofficeParts,
  actor: Actor,
  tenant: TenantId | 'all',
): Promise<Outcome<Readonly<Record<Action, boolean>>>> {
  const reached = tenant === 'all' ? ok('all' as const) : await reachTenant(parts, actor, tenant)
  if (reached.kind !== 'ok') return reached
  const asked = await Promise.all(
    actions.map(async (action) => [action, await parts.access.may(actor, action, reached.value)] as const),
  )
  for (const [, permission] of asked) if (permission.kind === 'unavailable') return permission
  // Nothing is done with what is not seen.
  const isSeen = asked.some(([action, { kind }]) => action === 'see' && kind === 'allowed')
  const allowed = asked.map(([action, { kind }]) => [action, isSeen && kind === 'allowed'] as const)
  return ok(Object.fromEntries(allowed) as Record<Action, boolean>)
}
