import type { ComponentChildren } from 'preact'
import type { Actor } from '#internal/access/index.ts'
import type { Backoffice, Refusal, TenantSelection, TenantSummary } from '#internal/backoffice/index.ts'
import type { ApiError, TenantId } from '#internal/base/index.ts'
import type { Flash } from './cookies.ts'
import type { Form } from './form.ts'
import type { FiguresNote } from './parts.ts'
import type { SectionName } from './sections.ts'

/** What a page is made from: who asks, for what, and where to get it. */
export interface PageContext {
  readonly backoffice: Backoffice
  readonly actor: Actor
  /** To be handed to every form: the session's token, masked for this answer. */
  readonly csrfToken: string
  readonly nowMs: number
  /** The address of this page with its query, to come back to; of a form that was sent, that of its way back. */
  readonly here: string
  /** The path's parameters, decoded. */
  readonly params: Readonly<Record<string, string>>
  /** The query's parameters, trimmed; those that are empty, as of a filter left blank, are left out. */
  readonly query: Readonly<Record<string, string>>
  /** The one tenant that is looked at: `/…/:tenant` or `?tenant=` has its id or slug; a tenant's key has its own always. */
  readonly tenant: TenantSummary | undefined
  /** Tenants that lists cover: the chosen tenant, or those of the chosen namespaces. */
  readonly whose: TenantSelection
  /** What people have to know of figures that are shown. */
  readonly figuresNote: FiguresNote
  /** What to call a tenant that the actor sees rows of: its slug, else its name, else its id. From memory. */
  tenantLabel(id: TenantId): string
}

/** What an action is made from: a form of ours, its token checked. */
export interface ActionContext extends PageContext {
  readonly form: Form
}

/** A page to be shown. */
export interface Shown {
  readonly kind: 'page'
  readonly title: string
  readonly body: ComponentChildren
  /** Default 200. */
  readonly status?: number
}

/** Another page to go to. */
export interface GoTo {
  readonly kind: 'goTo'
  /** A path of ours. */
  readonly path: string
  /** What that page says at its top, once. */
  readonly flash?: Flash
}

/** The page tells of one tenant, and none is chosen: the choice is offered. */
export interface NeedsTenant {
  readonly kind: 'needsTenant'
}

/** What came of asking for a page. A refusal of the backoffice is one as it is: the frame shows it. */
export type PageResult = Shown | GoTo | NeedsTenant | Refusal | ApiError

interface Row {
  /** Such as `/events/:id`. */
  readonly path: string
  /** Where in the navigation it belongs. */
  readonly section: SectionName
}

/** A page that is read: `GET`. It changes nothing. */
export interface PageRow extends Row {
  readonly method: 'GET'
  show(context: PageContext): Promise<PageResult> | PageResult
}

/** A form that is sent: `POST`. It ends with `goTo`, or with the page that shows what is wrong. */
export interface ActionRow extends Row {
  readonly method: 'POST'
  /** The page to come back to, a `GET` row's path with the same parameters: nobody can read the address of a form. */
  readonly back: string
  /** What of the form that page's query keeps, beside `tenant`. */
  readonly backKeeps?: readonly string[]
  act(context: ActionContext): Promise<PageResult> | PageResult
}

/** Makes a page to be shown. */
export function shown(title: string, body: ComponentChildren): Shown {
  return { kind: 'page', title, body }
}

/** Makes the answer to a form that did what it should. */
export function goTo(path: string, text?: string, tone: Flash['tone'] = 'good'): GoTo {
  return { kind: 'goTo', path, ...(text !== undefined && { flash: { tone, text } }) }
}

/**
 * A path of ours with its query: parameters that are undefined or empty are left out, all are encoded. The one way by which links
 * are made of what came from outside.
 */
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

/** An address of ours for another tenant, or for all: what else was chosen stays, but for the place in a list. Pure. */
export function forTenant(address: string, tenant: string | undefined): string {
  const [path = '/', search = ''] = address.split('?')
  const { tenant: _tenant, after: _after, ...kept } = Object.fromEntries(new URLSearchParams(search))
  return link(path, { ...kept, tenant })
}
