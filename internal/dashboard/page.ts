import type { ComponentChildren } from 'preact'
import type { Action, Actor } from '#internal/access/index.ts'
import type {
  Backoffice,
  Refusal,
  TenantRef,
  TenantSelection,
  TenantSummary,
} from '#internal/backoffice/index.ts'
import type { ApiError, TenantId } from '#internal/base/index.ts'
import type { Flash } from './cookies.ts'
import type { StatsNote } from './dashboard.tsx'
import type { Form } from './request.ts'

/** Sections of the dashboard in navigation order. */
export const sections = [
  { name: 'overview', label: 'Overview', path: '/', group: 'Now' },
  { name: 'events', label: 'Events', path: '/events', group: 'Webhooks' },
  { name: 'refused', label: 'Refused calls', path: '/refused', group: 'Webhooks' },
  { name: 'replays', label: 'Replays', path: '/replays', group: 'Webhooks' },
  { name: 'simulations', label: 'Simulations', path: '/simulations', group: 'Webhooks' },
  { name: 'locks', label: 'Lock history', path: '/executions', group: 'Records' },
  { name: 'tenants', label: 'Tenants', path: '/tenants', group: 'Platform' },
  { name: 'usage', label: 'Usage', path: '/usage', group: 'Platform' },
  { name: 'settings', label: 'Settings', path: '/settings', group: 'Platform' },
  { name: 'audit', label: 'Audit log', path: '/audit', group: 'Platform' },
] as const

/** Name of a section. */
export type SectionName = (typeof sections)[number]['name']

/** Rights of the actor on a tenant, by action. */
export type Rights = Readonly<Record<Action, boolean>>

/** Input of a page: the actor, the request and the backoffice. */
export interface PageContext {
  readonly backoffice: Backoffice
  readonly actor: Actor
  /** CSRF token for every form of this response, masked. */
  readonly csrfToken: string
  readonly nowMs: number
  /** Address of this page with its query; after a POST, the address of the page that the form belongs to. */
  readonly here: string
  /** Path parameters, decoded. */
  readonly params: Readonly<Record<string, string>>
  /** Query parameters, trimmed; empty ones are omitted. */
  readonly query: Readonly<Record<string, string>>
  /** The tenant of the path (`:tenant`) or of `?tenant=`, by id or slug; for a tenant's key always its own. */
  readonly tenant: TenantSummary | undefined
  /** Tenants that lists cover: the chosen tenant, or those of the chosen namespaces. */
  readonly selection: TenantSelection
  readonly statsNote: StatsNote
  /** Returns the slug of a tenant, else its name, else its id. From memory. */
  tenantLabel(id: TenantId): string
}

/** Input of an action: a form whose CSRF token was checked. */
export interface ActionContext extends PageContext {
  readonly form: Form
}

/** A page to render. */
export interface Shown {
  readonly kind: 'page'
  readonly title: string
  readonly body: ComponentChildren
  /** Default 200. */
  readonly status?: number
}

/** A redirect to another page, with a message that it shows once. */
export interface GoTo {
  readonly kind: 'goTo'
  readonly path: string
  readonly flash?: Flash
}

/** The page needs one tenant and none is chosen: the frame shows the choice. */
export interface NeedsTenant {
  readonly kind: 'needsTenant'
}

/** Result of a page or an action. Refusals and errors are rendered by the frame. */
export type PageResult = Shown | GoTo | NeedsTenant | Refusal | ApiError

interface Row {
  /** Route, such as `/events/:id`. */
  readonly path: string
  readonly section: SectionName
}

/** A `GET` page without side effects. */
export interface PageRow extends Row {
  readonly method: 'GET'
  show(context: PageContext): Promise<PageResult> | PageResult
}

/** A `POST` form. It ends with `goTo`, or with a page that shows the problems. */
export interface ActionRow extends Row {
  readonly method: 'POST'
  /** Route of the `GET` page with the same parameters that the response links back to. */
  readonly back: string
  /** Form fields that the link back keeps in its query, beside `tenant`. */
  readonly backKeeps?: readonly string[]
  act(context: ActionContext): Promise<PageResult> | PageResult
}

/** Makes a page to render. */
export function shown(title: string, body: ComponentChildren, status = 200): Shown {
  return { kind: 'page', title, body, status }
}

/** Makes the redirect after a form. */
export function goTo(path: string, text?: string, tone: Flash['tone'] = 'good'): GoTo {
  return { kind: 'goTo', path, ...(text !== undefined && { flash: { tone, text } }) }
}

/** Makes the redirect after an idempotent write, with a message for the write and one for its repeat. */
export function doneAt(path: string, { isNew }: { readonly isNew: boolean }, done: string, repeated: string) {
  return isNew ? goTo(path, done) : goTo(path, repeated, 'info')
}

/** Makes an internal link with an encoded query; undefined and empty parameters are omitted. */
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

/** Returns an address of the dashboard for another tenant, or for all; the position in a list is dropped. */
export function forTenant(address: string, tenant: string | undefined): string {
  const [path = '/', search = ''] = address.split('?')
  const { tenant: _tenant, after: _after, ...kept } = Object.fromEntries(new URLSearchParams(search))
  return link(path, { ...kept, tenant })
}

/** Display name of a tenant, else its slug, else its name. */
export function nameOf({
  displayName,
  slug,
  name,
}: Pick<TenantSummary, 'displayName' | 'slug' | 'name'>): string {
  return displayName ?? slug ?? name
}

/** Reads a tenant's id, slug, `namespace/name` or API key prefix, as a person types it. */
export function refOf(text: string): TenantRef {
  if (text.startsWith('ten_')) return { by: 'id', text }
  if (text.startsWith('lk_')) return { by: 'keyPrefix', text }
  const [namespace, name, ...more] = text.split('/')
  return namespace && name && more.length === 0 ? { by: 'name', namespace, name } : { by: 'slug', text }
}

/** Continues if the actor has the right on the tenant of the page. */
export async function withRight(
  context: PageContext,
  action: Action,
  proceed: (tenant: TenantSummary) => Promise<PageResult> | PageResult,
): Promise<PageResult> {
  const { tenant } = context
  if (tenant === undefined) return { kind: 'needsTenant' }
  return withRightTo(context, tenant.id, action, () => proceed(tenant))
}

/** Continues if the actor has the right on a tenant, or on all of them. */
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

/**
 * Decides whether to offer a replay of many events: of the chosen tenant, or of one that the form will name. False while the API server
 * does not answer.
 */
export async function mayReplay({ backoffice, actor, tenant }: PageContext): Promise<boolean> {
  const rights = await backoffice.tenants.permissions(actor, tenant?.id ?? 'all')
  if (rights.kind !== 'ok') return false
  return rights.value.replay || (tenant === undefined && !rights.value.see)
}

/** Address that a page links back to. */
export interface WayBack {
  /** The page's own address; for a POST the `GET` page that its row names. */
  readonly here: string
  /** True for a POST: following `here` does not repeat it. */
  readonly isForm: boolean
}

/** Finds the way back of a request; `/` for a POST without a row. `form` is omitted if it was not read. */
export type FindWayBack = (request: Request, form?: Form) => WayBack

/** Creates the finder for a table of pages. */
export function createWayBack(rows: readonly (PageRow | ActionRow)[]): FindWayBack {
  const actions = rows.flatMap((row) =>
    row.method === 'POST' ? [{ ...row, pattern: new URLPattern({ pathname: row.path }) }] : [],
  )
  return (request, form = {}) => {
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
