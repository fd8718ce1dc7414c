import { type Action, type Actor, actions } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import { originOfUrl } from '#internal/delivery/index.ts'
import {
  callbackDestination,
  findSuspendedTenants,
  listEvents,
  notificationsDestination,
  ownProvider,
  readDestinationStatus,
} from '#internal/events/index.ts'
import {
  findLiveTenant,
  findTenantHead,
  listTenantHeads,
  listTenantsOfKey,
  readTenantSheet,
  type TenantHead,
  webhookUrls,
} from '#internal/tenants/index.ts'
import { callbackSuspendedReason } from './attention.ts'
import type { TenantDetail, TenantSummary } from './http-answers.ts'
import { conflict, invalid, notFound, type Outcome, ok } from './outcome.ts'
import { type Page, type PageRequest, pageFrom, readPage } from './page.ts'
import type { BackofficeParts, DeskParts, UseCase } from './parts.ts'
import { reachNamespaces, reachTenant, type TenantSelection } from './reach.ts'

const searchCharsMax = 100
/** Maximum number of tenants that a search examines. */
export const tenantsExaminedMax = 5_000

/** Lists tenants by namespace and name. */
const list: UseCase<
  PageRequest &
    Pick<TenantSelection, 'namespaces'> & {
      /** Part of a slug, a name or a display name, in any case; at most 100 characters. */
      readonly search?: string | undefined
    },
  Page<TenantSummary>
> = async (parts, actor, request) => {
  const page = readPage(request, parsePosition)
  if (page.kind !== 'ok') return page
  const { search = '', namespaces } = request
  if (search.length > searchCharsMax) return invalid(`A search has at most ${searchCharsMax} characters`)
  const seen = await reachNamespaces(parts, actor, namespaces)
  if (seen.kind !== 'ok') return seen
  const wanted = search.toLowerCase()
  const isMatch = ({ namespace, name, slug, displayName }: TenantHead) =>
    [`${namespace}/${name}`, slug, displayName].some((text) => text?.toLowerCase().includes(wanted))
  const { limit, after } = page.value
  if (seen.value.kind === 'tenant') {
    const row = after === undefined ? await findTenantHead(parts.pool, seen.value.tenantId) : undefined
    return pageFrom(await summariesOf(parts, row && isMatch(row) ? [row] : []), undefined)
  }
  const within = seen.value.kind === 'namespaces' ? seen.value.namespaces : undefined
  const rowsMax = search === '' ? limit + 1 : tenantsExaminedMax
  const rows = await listTenantHeads(parts.pool, { after, namespaces: within, rowsMax })
  const matches = rows.filter(isMatch)
  const items = matches.slice(0, limit)
  const last = matches.length > limit ? items.at(-1) : rows.length === rowsMax ? rows.at(-1) : undefined
  return pageFrom(await summariesOf(parts, items), last && `${last.namespace}/${last.name}`)
}

function parsePosition(text: string) {
  const [, namespace, name] = /^([-a-z0-9]{1,63})\/([-a-z0-9.]{1,63})$/.exec(text) ?? []
  return namespace === undefined || name === undefined ? undefined : { namespace, name }
}

/** Summarizes tenants with the present state of their callbacks. The operator writes that state to the conditions only later. */
async function summariesOf(
  { pool }: BackofficeParts,
  heads: readonly TenantHead[],
): Promise<readonly TenantSummary[]> {
  const suspended = await findSuspendedTenants(
    pool,
    heads.map(({ id }) => id),
  )
  return heads.map((head) => summaryOf(head, suspended.has(head.id)))
}

function summaryOf({ ready, ...head }: TenantHead, isCallbackSuspended: boolean): TenantSummary {
  const reason = ready?.status === 'True' ? null : (ready?.reason ?? 'Unknown')
  if (isCallbackSuspended) return { ...head, isReady: false, reason: reason ?? callbackSuspendedReason }
  return reason === callbackSuspendedReason
    ? { ...head, isReady: true, reason: null }
    : { ...head, isReady: reason === null, reason }
}

/** Reference to one tenant. */
export type TenantRef =
  | { readonly by: 'id' | 'slug'; readonly text: string }
  /** First 11 characters of an API key, including `lk_`. Callers must not send the whole key. */
  | { readonly by: 'keyPrefix'; readonly text: string }
  | { readonly by: 'name'; readonly namespace: string; readonly name: string }

/** Maximum number of tenants with the same key prefix that are examined. Each costs one check of rights. */
const sameKeyMax = 20
const keyPrefixForm = /^lk_[\x21-\x7e]{8}$/

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
  // If some tenants are not examined, the match may not be unique, since the actor could see one of them.
  const isCut = candidates.length > sameKeyMax
  if (id === undefined && !isCut) return notFound
  if (id === undefined || isCut || another !== undefined)
    return conflict('Several tenants have a key with this prefix: name the tenant by its id')
  const head = await findTenantHead(parts.pool, id)
  const [summary] = head === undefined ? [] : await summariesOf(parts, [head])
  return summary === undefined ? notFound : ok(summary)
}

/** Finds the tenants that a reference names. `[undefined]` if there is none, so that rights are checked as for an invisible tenant. */
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
      return [(await findLiveTenant(pool, ref))?.id]
    case 'keyPrefix': {
      // The query filters by the key's own tenant. Otherwise `rowsMax` could drop the row of this tenant before the rights check.
      const tenantId = actor.kind === 'tenantKey' ? actor.tenantId : undefined
      const ids = await listTenantsOfKey(pool, { prefix: ref.text, tenantId, rowsMax: sameKeyMax + 1 })
      return ids.length === 0 ? [undefined] : ids
    }
  }
}

async function readNotifications(
  { pool, readPool, clock }: DeskParts,
  tenantId: TenantId,
): Promise<TenantDetail['notifications']> {
  const [blocker, { events }] = await Promise.all([
    readDestinationStatus(pool, { tenantId, destination: notificationsDestination }),
    listEvents(readPool, { tenantId, provider: ownProvider, limit: 1 }, clock.now()),
  ])
  const [last] = events
  // A half-open breaker is shown as open: notifications are tried one at a time until one succeeds.
  const waits = blocker.trouble === undefined ? 'active' : 'breaker_open'
  return {
    state: blocker.suspension ? 'suspended' : waits,
    last: last ? { id: last.id, type: last.type, state: last.state, receivedAtMs: last.receivedAtMs } : null,
  }
}

/** Reads a tenant. Removes credentials from the callback URL. */
async function read(parts: DeskParts, actor: Actor, id: TenantId): Promise<Outcome<TenantDetail>> {
  const reached = await reachTenant(parts, actor, id)
  if (reached.kind !== 'ok') return reached
  const [sheet, blocker] = await Promise.all([
    readTenantSheet(parts.pool, id),
    readDestinationStatus(parts.pool, { tenantId: id, destination: callbackDestination }),
  ])
  if (sheet === undefined) return notFound
  const { spec, keys, secrets, conditions, recordStore, earlierRecordStore, ...head } = sheet
  const { suspension, breakerEndsAtMs } = blocker
  const callback = spec.callback && {
    ...spec.callback,
    url: parts.redactorOf(reached.value).text(spec.callback.url),
  }
  const { notifications } = spec
  const notificationsState = notifications && (await readNotifications(parts, id))
  const shownNotifications = notifications?.url && {
    ...notifications,
    url: originOfUrl(notifications.url),
  }
  const urls = webhookUrls(head.slug, spec, parts.publicUrl)
  const isShown = parts.manifestFileOf !== undefined && actor.kind !== 'tenantKey'
  return ok({
    ...summaryOf(head, suspension !== undefined),
    conditions,
    spec: {
      ...spec,
      ...(callback && { callback }),
      ...(shownNotifications && { notifications: shownNotifications }),
    },
    urls,
    keys,
    secrets,
    recordStore,
    ...(earlierRecordStore && { earlierRecordStore }),
    ...(isShown && { manifestFile: parts.manifestFileOf?.(head) ?? null }),
    ...(callback && { suspendedCallback: suspension, breakerEndsAtMs }),
    ...(notificationsState && { notifications: notificationsState }),
  })
}

/** Returns for each action whether the actor may take it, so that pages offer only allowed actions. */
const permissions: UseCase<TenantId | 'all', Readonly<Record<Action, boolean>>> = async (
  parts,
  actor,
  tenant,
) => {
  const reached = tenant === 'all' ? ok('all' as const) : await reachTenant(parts, actor, tenant)
  if (reached.kind !== 'ok') return reached
  const asked = await Promise.all(
    actions.map(async (action) => [action, await parts.access.may(actor, action, reached.value)] as const),
  )
  for (const [, permission] of asked) if (permission.kind === 'unavailable') return permission
  // An actor that lacks the right `see` has no other right on the tenant.
  const isSeen = asked.some(([action, { kind }]) => action === 'see' && kind === 'allowed')
  const allowed = asked.map(([action, { kind }]) => [action, isSeen && kind === 'allowed'] as const)
  return ok(Object.fromEntries(allowed) as Record<Action, boolean>)
}

export const tenantCases = { list, find, read, permissions }
