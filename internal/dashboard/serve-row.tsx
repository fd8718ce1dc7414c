import type { Outcome, TenantRef, TenantSelection, TenantSummary } from '#internal/backoffice/index.ts'
import { apiError, type TenantId } from '#internal/base/index.ts'
import type { Call, PublicRoute } from '#internal/http/index.ts'
import { chooseTenant } from './choose-tenant.tsx'
import { flashCookie, type Preferences, readPreferences } from './cookies.ts'
import { type Form, parseForm } from './form.ts'
import { isFormToken, maskedToken } from './form-token.ts'
import { framedAnswer } from './framed-answer.tsx'
import type { ActionRow, GoTo, NeedsTenant, PageContext, PageResult, PageRow, Shown } from './page.ts'
import type { DashboardParts } from './parts.ts'
import { namespacesProblem, type Problem, problemOf } from './problem.tsx'
import { redirectAnswer } from './render.ts'
import { factsOf, isFromOwnPage, safePath } from './request-facts.ts'
import { sections } from './sections.ts'
import { type Answered, type SignedInCall, withSession } from './signed-in.tsx'
import type { WayBack } from './way-back.ts'

/** Bytes that a form may have; a token of 16 KiB and a filter fit well. */
export const formBytesMax = 32 * 1024

/** Makes the route of a page or an action. */
export function routeOf(parts: DashboardParts, row: PageRow | ActionRow): PublicRoute {
  return {
    access: 'public',
    method: row.method,
    path: row.path,
    bodyBytesMax: row.method === 'POST' ? formBytesMax : 0,
    handle: (call) => withSession(parts, call, (signedIn) => serve(parts, row, signedIn)),
  }
}

async function serve(
  parts: DashboardParts,
  row: PageRow | ActionRow,
  signedIn: SignedInCall,
): Promise<Answered> {
  const preferences = readPreferences(signedIn.call.request.headers.get('cookie'))
  const form = row.method === 'POST' ? readForm(signedIn) : undefined
  if (form?.kind === 'error') return form
  const { params } = signedIn.call
  const named = params['tenant'] ?? signedIn.query['tenant'] ?? form?.fields['tenant']
  const chosen = await findChosen(parts, signedIn, named)
  const tenant = chosen?.kind === 'ok' ? chosen.value : undefined
  const wayBack = parts.wayBack(signedIn.call.request, form?.fields)
  const context = { ...contextOf(parts, signedIn, preferences, tenant), here: wayBack.here }
  const asked =
    chosen !== undefined && chosen.kind !== 'ok' ? chosen : await ask(row, context, form?.fields ?? {})
  const result = asked.kind === 'needsTenant' ? await chooseTenant(context) : asked
  if (result.kind === 'error') return result
  if (result.kind === 'goTo') return leadOn(signedIn.call, result)
  return showPage(parts, { row, signedIn, preferences, context, wayBack, result })
}

function ask(row: PageRow | ActionRow, context: PageContext, form: Form): Promise<PageResult> | PageResult {
  return row.method === 'GET' ? row.show(context) : row.act({ ...context, form })
}

/** A form counts when one of our pages has sent it, with the session's own token in it. */
function readForm({ call, session }: SignedInCall) {
  const fields = parseForm(call.request, call.body)
  if (fields === undefined)
    return apiError('invalid_request', 'This is no form of ours: go back and try again')
  if (!isFromOwnPage(call.request) || !isFormToken(session, fields['csrf'] ?? ''))
    return apiError(
      'invalid_request',
      'The form is too old, or was not sent by our own page: go back, load the page anew and try again',
    )
  return { kind: 'form', fields } as const
}

/** The tenant that a request names, by its path, query or form, if it names one; a tenant's own key always does. */
function findChosen(
  { backoffice }: DashboardParts,
  { session }: SignedInCall,
  named: string | undefined,
): Promise<Outcome<TenantSummary>> | undefined {
  const { actor } = session
  if (named !== undefined && named !== '') return backoffice.tenants.find(actor, refOf(named))
  if (actor.kind !== 'tenantKey') return undefined
  return backoffice.tenants.find(actor, { by: 'id', text: actor.tenantId })
}

/** What somebody means who types a tenant's id, slug, name with namespace, or how a key of it begins. */
export function refOf(text: string): TenantRef {
  if (text.startsWith('ten_')) return { by: 'id', text }
  if (text.startsWith('lk_')) return { by: 'keyPrefix', text }
  const [namespace, name, ...more] = text.split('/')
  return namespace && name && more.length === 0 ? { by: 'name', namespace, name } : { by: 'slug', text }
}

function contextOf(
  { backoffice, clock, directory, figuresNote = () => undefined }: DashboardParts,
  { call, session, query }: SignedInCall,
  { namespaces }: Preferences,
  tenant: TenantSummary | undefined,
): Omit<PageContext, 'here'> {
  const whose: TenantSelection = tenant
    ? { tenantId: tenant.id }
    : { ...(namespaces.length > 0 && session.actor.kind === 'user' && { namespaces }) }
  return {
    ...{ backoffice, query, tenant, whose, figuresNote },
    actor: session.actor,
    csrfToken: maskedToken(session),
    nowMs: clock.now(),
    params: call.params,
    tenantLabel: (id: TenantId) => {
      const found = directory.findTenantById(id)
      return found === undefined ? id : (found.slug ?? `${found.namespace}/${found.name}`)
    },
  }
}

function leadOn({ request }: Call, { path, flash }: GoTo): Answered {
  return redirectAnswer(safePath(path), flash && flashCookie(flash, factsOf(request)))
}

interface PageParts {
  readonly row: PageRow | ActionRow
  readonly signedIn: SignedInCall
  readonly preferences: Preferences
  readonly context: PageContext
  readonly wayBack: WayBack
  readonly result: Exclude<PageResult, GoTo | NeedsTenant | { readonly kind: 'error' }>
}

function showPage(parts: DashboardParts, { signedIn, preferences, ...shown }: PageParts): Answered {
  const { row, context } = shown
  const { csrfToken, here, tenant } = context
  return framedAnswer(parts, signedIn, {
    ...{ preferences, csrfToken, here, tenant, section: row.section },
    ...pageOf(shown, preferences),
  })
}

function pageOf(
  { row, context, wayBack, result }: Pick<PageParts, 'row' | 'context' | 'wayBack' | 'result'>,
  { namespaces }: Preferences,
): Problem {
  const { actor, csrfToken, here, tenant } = context
  if (result.kind === 'page') {
    const { title, body, status = 200 }: Shown = result
    return { title, body, status, outcome: status < 400 ? 'page' : 'form_refused' }
  }
  // Whoever may not see all of a list has to say which part of it is meant. Behind other addresses is something that has one owner.
  const isList = row.method === 'GET' && sections.some(({ path }) => path === row.path)
  const lacksNamespaces = isList && actor.kind === 'user' && tenant === undefined && namespaces.length === 0
  if (result.kind === 'forbidden' && lacksNamespaces) return namespacesProblem({ csrfToken, here })
  return problemOf(result, wayBack)
}
