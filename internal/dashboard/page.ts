import type { ComponentChildren } from 'preact'
import type { Action, Actor } from '#internal/access/index.ts'
import type {
  Backoffice,
  Blocker,
  BlockersByTenant,
  Refusal,
  TenantRef,
  TenantSelection,
  TenantSummary,
} from '#internal/backoffice/index.ts'
import type { ApiError, TenantId } from '#internal/base/index.ts'
import type { Flash } from './cookies.ts'
import type { DashboardOptions } from './dashboard.tsx'
import type { Form } from './request.ts'

export const sections = [
  { name: 'overview', label: 'Overview', path: '/', group: 'Now' },
  { name: 'events', label: 'Events', path: '/events', group: 'Webhooks' },
  { name: 'refused', label: 'Refused calls', path: '/refused', group: 'Webhooks' },
  { name: 'replays', label: 'Replays', path: '/replays', group: 'Webhooks' },
  { name: 'simulations', label: 'Simulations', path: '/simulations', group: 'Webhooks' },
  { name: 'eventTypes', label: 'Event types', path: '/event-types', group: 'Webhooks' },
  { name: 'locks', label: 'Lock history', path: '/executions', group: 'Records' },
  { name: 'tenants', label: 'Tenants', path: '/tenants', group: 'Platform' },
  { name: 'usage', label: 'Usage', path: '/usage', group: 'Platform' },
  { name: 'settings', label: 'Settings', path: '/settings', group: 'Platform' },
  { name: 'audit', label: 'Audit log', path: '/audit', group: 'Platform' },
] as const

export type SectionName = (typeof sections)[number]['name']

export type Rights = Readonly<Record<Action, boolean>>

export interface PageContext {
  readonly backoffice: Backoffice
  readonly actor: Actor
  /** Masked token for every form in this response. */
  readonly csrfToken: string
  readonly nowMs: number
  /** Time zone of the reader. Components take it from `ReaderClockContext`. */
  readonly zone: string
  /** Address of this page with its query. After a POST, the address of the page that contains the form. */
  readonly here: string
  /** Decoded path parameters. */
  readonly params: Readonly<Record<string, string>>
  /** Query parameters without surrounding white space. Empty ones are omitted. */
  readonly query: Readonly<Record<string, string>>
  /** Tenant that the path (`:tenant`) or `?tenant=` names by id or slug. For a tenant's key, always its own tenant. */
  readonly tenant: TenantSummary | undefined
  /** Tenants that lists cover: the chosen one, or those of the chosen namespaces. */
  readonly selection: TenantSelection
  readonly statsNote: NonNullable<DashboardOptions['statsNote']>
  /** Returns the slug, or else the name, or else the id. Reads from memory only. */
  tenantLabel(id: TenantId): string
}

/** Input of an action. The CSRF token of its form is valid. */
export interface ActionContext extends PageContext {
  readonly form: Form
}

export interface Shown {
  readonly kind: 'page'
  readonly title: string
  readonly body: ComponentChildren
  /** Default 200. */
  readonly status?: number
  /** Tenant of what the page shows, if the address does not name a tenant. The frame shows the blockers of this tenant. */
  readonly tenantId?: TenantId
}

/** Refusals and errors are rendered as problem pages. */
export type PageResult =
  | Shown
  /** Redirects. The next page shows the message once. */
  | { readonly kind: 'goTo'; readonly path: string; readonly flash?: Flash }
  | { readonly kind: 'needsTenant' }
  | Refusal
  | ApiError

/** Page that is read with `GET` and has no side effects. */
export interface PageRow {
  readonly method: 'GET'
  readonly path: string
  /** Omit for a page outside the navigation. */
  readonly section?: SectionName
  show(context: PageContext): Promise<PageResult> | PageResult
}

/** Action of a `POST` form. It returns `goTo`, or a page with the error texts. */
export interface ActionRow extends Pick<PageRow, 'path' | 'section'> {
  readonly method: 'POST'
  /** Route of the `GET` page to link back to, with the same path parameters. */
  readonly back: string
  /** Form fields that the link back keeps in its query, in addition to `tenant`. */
  readonly backKeeps?: readonly string[]
  act(context: ActionContext): Promise<PageResult> | PageResult
}

/** Reads the blockers of tenants. Returns none if they cannot be read; pages then show no badges. */
export async function blockersByTenant(
  { backoffice, actor }: PageContext,
  tenantIds: readonly TenantId[],
): Promise<BlockersByTenant> {
  const read = await backoffice.attention.ofTenants(actor, tenantIds)
  return read.kind === 'ok' ? read.value : new Map()
}

export async function withBlockers<Item>(
  context: PageContext,
  items: readonly Item[],
  tenantIdOf: (item: Item) => TenantId,
): Promise<(Item & { readonly blockers: readonly Blocker[] })[]> {
  const blockers = await blockersByTenant(context, items.map(tenantIdOf))
  return items.map((item) => ({ ...item, blockers: blockers.get(tenantIdOf(item)) ?? [] }))
}

export function shown(title: string, body: ComponentChildren, status = 200): Shown {
  return { kind: 'page', title, body, status }
}

export function goTo(path: string, text?: string, tone: Flash['tone'] = 'good'): PageResult {
  return { kind: 'goTo', path, ...(text !== undefined && { flash: { tone, text } }) }
}

/** Redirects after an idempotent write. The message is `done`, or `repeated` for a repeated request, and links to the page `about`. */
export function doneAt(
  path: string,
  { isNew }: { readonly isNew: boolean },
  done: string,
  repeated: string,
  about?: Flash['link'],
): PageResult {
  const flash: Flash = isNew ? { tone: 'good', text: done } : { tone: 'info', text: repeated }
  return { kind: 'goTo', path, flash: { ...flash, ...(about && { link: about }) } }
}

/** Returns an address with an encoded query. Omits undefined and empty parameters. */
export function link(
  path: string,
  query: Readonly<Record<string, string | number | undefined>> = {},
): string {
  const parameters = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    if (value !== undefined && value !== '') parameters.set(name, String(value))
  const text = parameters.toString()
  return text === '' ? path : `${path}?${text}`
}

/** Replaces the tenant in an address, or removes it if `tenant` is undefined. Also removes the cursor of a list. */
export function forTenant(address: string, tenant: string | undefined): string {
  const [path = '/', search = ''] = address.split('?')
  const { tenant: _tenant, after: _after, ...kept } = Object.fromEntries(new URLSearchParams(search))
  return link(path, { ...kept, tenant })
}

export function nameOf({
  displayName,
  slug,
  name,
}: Pick<TenantSummary, 'displayName' | 'slug' | 'name'>): string {
  return displayName ?? slug ?? name
}

/** Parses a reference to a tenant: an id, a slug, `namespace/name` or the prefix of an API key. */
export function refOf(text: string): TenantRef {
  if (text.startsWith('ten_')) return { by: 'id', text }
  if (text.startsWith('lk_')) return { by: 'keyPrefix', text }
  const [namespace, name, ...more] = text.split('/')
  return namespace && name && more.length === 0 ? { by: 'name', namespace, name } : { by: 'slug', text }
}

/** Calls `proceed` if the actor has the right on the page's tenant; otherwise refuses. */
export async function withRight(
  context: PageContext,
  action: Action,
  proceed: (tenant: TenantSummary) => Promise<PageResult> | PageResult,
): Promise<PageResult> {
  const { tenant } = context
  if (tenant === undefined) return { kind: 'needsTenant' }
  return withRightTo(context, tenant.id, action, () => proceed(tenant))
}

export async function withRightTo(
  { backoffice, actor }: PageContext,
  tenantId: TenantId | 'all',
  action: Action,
  proceed: () => Promise<PageResult> | PageResult,
): Promise<PageResult> {
  const rights = await backoffice.tenants.permissions(actor, tenantId)
  if (rights.kind !== 'ok') return rights
  return rights.value[action] ? proceed() : { kind: 'forbidden' }
}

/** Returns true if a page can offer replays of the chosen tenant, or of a tenant that the form asks for. False while rights are unknown. */
export async function mayReplay({ backoffice, actor, tenant }: PageContext): Promise<boolean> {
  const rights = await backoffice.tenants.permissions(actor, tenant?.id ?? 'all')
  if (rights.kind !== 'ok') return false
  return rights.value.replay || (tenant === undefined && !rights.value.see)
}

export interface WayBack {
  /** Address of the page. For a POST, the address of the `GET` page that belongs to the action. */
  readonly here: string
  /** True for a POST. The link back then opens a page with GET and does not repeat the POST. */
  readonly isForm: boolean
}

/** Creates a function that finds the link back from a page: `/` for a POST to an unknown path. Omit `form` if it was not read. */
export function createWayBack(rows: readonly (PageRow | ActionRow)[]) {
  const actions = rows.flatMap((row) =>
    row.method === 'POST' ? [{ ...row, pattern: new URLPattern({ pathname: row.path }) }] : [],
  )
  return (request: Request, form: Form = {}): WayBack => {
    const { pathname, search, searchParams } = new URL(request.url)
    if (request.method !== 'POST') return { here: `${pathname}${search}`, isForm: false }
    const row = actions.find(({ pattern }) => pattern.test(request.url))
    if (row === undefined) return { here: '/', isForm: true }
    const params = row.pattern.exec(request.url)?.pathname.groups ?? {}
    const path = row.back.replaceAll(/:(\w+)/g, (_whole, name: string) => params[name] ?? '')
    const kept = ['tenant', ...(row.backKeeps ?? [])].map((name) => [
      name,
      form[name] ?? searchParams.get(name) ?? '',
    ])
    return { here: link(path, Object.fromEntries(kept) as Form), isForm: true }
  }
}
