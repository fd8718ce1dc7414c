import type { Actor } from '#internal/access/index.ts'
import { cursorOf, invalid, limitOf, type Outcome, ok, type Page } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachNamespaces } from './reach.ts'
import { findTenantRow, listTenantRows, type TenantPosition, type TenantRow } from './tenant-rows.ts'
import { summaryOf } from './tenant-summary.ts'
import type { TenantListRequest, TenantSummary } from './tenants.ts'

const searchCharsMax = 100
/** Tenants that are looked at for one page of a search. */
const examinedMax = 5_000
const first: TenantPosition = { namespace: '', name: '' }

/** A page of tenants, by namespace and name. A search looks at 5 000 of them at most for one page. */
export async function listTenants(
  parts: BackofficeParts,
  actor: Actor,
  request: TenantListRequest,
): Promise<Outcome<Page<TenantSummary>>> {
  const limit = limitOf(request)
  if (limit.kind !== 'ok') return limit
  const { search = '', namespaces } = request
  if (search.length > searchCharsMax) return invalid(`A search has at most ${searchCharsMax} characters`)
  const after = cursorOf(request, readPosition)
  if (after.kind !== 'ok') return after
  const seen = await reachNamespaces(parts, actor, namespaces)
  if (seen.kind !== 'ok') return seen
  const isMeant = matcherOf(search)
  if (seen.value.kind === 'tenant') {
    const row = request.after === undefined ? await findTenantRow(parts.pool, seen.value.tenantId) : undefined
    return ok({ items: row && isMeant(row) ? [summaryOf(row)] : [], next: undefined })
  }
  const within = seen.value.kind === 'namespaces' ? seen.value.namespaces : undefined
  const rowsMax = search === '' ? limit.value + 1 : examinedMax
  const rows = await listTenantRows(parts.pool, { after: after.value ?? first, namespaces: within, rowsMax })
  return ok(pageOf(rows, { isMeant, limit: limit.value, rowsMax }))
}

interface Cut {
  readonly isMeant: (row: TenantRow) => boolean
  readonly limit: number
  readonly rowsMax: number
}

function pageOf(rows: readonly TenantRow[], { isMeant, limit, rowsMax }: Cut): Page<TenantSummary> {
  const meant = rows.filter(isMeant)
  const page = meant.slice(0, limit)
  const isFull = meant.length > limit
  const last = isFull ? page.at(-1) : rows.length === rowsMax ? rows.at(-1) : undefined
  return { items: page.map(summaryOf), next: last && writePosition(last) }
}

function matcherOf(search: string): (row: TenantRow) => boolean {
  const wanted = search.toLowerCase()
  return ({ namespace, name, slug, displayName }) =>
    [`${namespace}/${name}`, slug, displayName].some((text) => text?.toLowerCase().includes(wanted) ?? false)
}

function writePosition({ namespace, name }: TenantPosition): string {
  return Buffer.from(`${namespace}/${name}`).toString('base64url')
}

function readPosition(text: string): TenantPosition | undefined {
  const [, namespace, name] =
    /^([-a-z0-9]{1,63})\/([-a-z0-9.]{1,63})$/.exec(Buffer.from(text, 'base64url').toString('latin1')) ?? []
  return namespace === undefined || name === undefined ? undefined : { namespace, name }
}
