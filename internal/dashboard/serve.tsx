import { actorName } from '#internal/access/index.ts'
import type { Outcome, TenantSelection, TenantSummary } from '#internal/backoffice/index.ts'
import { isApiError, type TenantId } from '#internal/base/index.ts'
import type { PublicRoute } from '#internal/http/index.ts'
import { ownNames } from '#internal/providers/index.ts'
import { OwnProvidersContext } from './components/form.tsx'
import { clearedFlashCookie, flashCookie, type Preferences, readPreferences } from './cookies.ts'
import type { DashboardParts } from './dashboard.tsx'
import { Frame, type FrameParts } from './layout.tsx'
import {
  type ActionRow,
  type PageContext,
  type PageResult,
  type PageRow,
  refOf,
  sections,
  type WayBack,
} from './page.ts'
import { blockerNotices } from './pages/attention.tsx'
import { chooseTenant } from './pages/tenants.tsx'
import { namespacesProblem, type Problem, problemOf } from './problem.tsx'
import { documentAnswer, redirectAnswer } from './render.tsx'
import { factsOf, maskedToken, safePath } from './request.ts'
import { type Answered, readForm, type SignedInCall, withSession } from './session.tsx'

/** Maximum bytes of a form: a token of 16 KiB, and room for the other fields. */
export const formBytesMax = 32 * 1024

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
  const { request, params } = signedIn.call
  const preferences = readPreferences(request.headers.get('cookie'))
  const form = row.method === 'POST' ? readForm(signedIn) : {}
  if (isApiError(form)) return form
  const named = params['tenant'] ?? signedIn.query['tenant'] ?? form['tenant']
  const chosen = await findChosen(parts, signedIn, named)
  const tenant = chosen?.kind === 'ok' ? chosen.value : undefined
  const wayBack = parts.wayBack(request, form)
  const context = { ...contextOf(parts, signedIn, preferences, tenant), here: wayBack.here }
  const asked =
    chosen !== undefined && chosen.kind !== 'ok'
      ? chosen
      : await (row.method === 'GET' ? row.show(context) : row.act({ ...context, form }))
  const result = asked.kind === 'needsTenant' ? await chooseTenant(context) : asked
  if (result.kind === 'error') return result
  if (result.kind === 'goTo')
    return redirectAnswer(safePath(result.path), result.flash && flashCookie(result.flash, factsOf(request)))
  const { csrfToken, here } = context
  const blockers = await readBlockers(context, row, result.kind === 'page' ? result.tenantId : undefined)
  return framedAnswer(parts, signedIn, {
    preferences,
    csrfToken,
    here,
    tenant,
    blockers,
    ...(row.section && { section: row.section }),
    ...contentOf(row, { context, wayBack, preferences, result }),
  })
}

/** Finds the tenant that the path, the query or the form names. If none is named, uses the tenant of the API key. */
function findChosen(
  { backoffice }: DashboardParts,
  { session: { actor } }: SignedInCall,
  named: string | undefined,
): Promise<Outcome<TenantSummary>> | undefined {
  if (named !== undefined && named !== '') return backoffice.tenants.find(actor, refOf(named))
  if (actor.kind !== 'tenantKey') return undefined
  return backoffice.tenants.find(actor, { by: 'id', text: actor.tenantId })
}

function contextOf(
  { backoffice, clock, directory, statsNote = () => undefined }: DashboardParts,
  { call, session, query }: SignedInCall,
  { namespaces, zone }: Preferences,
  tenant: TenantSummary | undefined,
): Omit<PageContext, 'here'> {
  const selection: TenantSelection = tenant
    ? { tenantId: tenant.id }
    : { ...(namespaces.length > 0 && session.actor.kind === 'user' && { namespaces }) }
  return {
    backoffice,
    query,
    tenant,
    selection,
    statsNote,
    zone,
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

/** Reads blockers of the chosen tenant, else of the page's, else of all tenants. The overview gets no notices: it lists blockers itself. */
async function readBlockers(
  context: PageContext,
  { path }: Pick<PageRow, 'path'>,
  ofPage: TenantId | undefined,
): Promise<FrameParts['blockers']> {
  const tenantId = context.tenant?.id ?? ofPage
  const selection = tenantId === undefined ? context.selection : { tenantId }
  const read = await context.backoffice.attention.blockers(context.actor, selection)
  if (read.kind !== 'ok') return undefined
  const { blockers, version } = read.value
  return { version, notices: path === '/' ? null : await blockerNotices(context, blockers, tenantId) }
}

function contentOf(
  row: PageRow | ActionRow,
  page: {
    readonly context: PageContext
    readonly wayBack: WayBack
    readonly preferences: Preferences
    readonly result: Exclude<PageResult, { readonly kind: 'goTo' | 'needsTenant' | 'error' }>
  },
): Problem {
  const { context, wayBack, preferences, result } = page
  const { actor, csrfToken, here, tenant } = context
  if (result.kind === 'page') {
    const { title, body, status = 200 } = result
    return { title, body, status, outcome: status < 400 ? 'page' : 'form_refused' }
  }
  // Only list pages ask for namespaces. Every other page is about one tenant or about all tenants.
  const isList = row.method === 'GET' && sections.some(({ path }) => path === row.path)
  const isNarrowed = actor.kind !== 'user' || tenant !== undefined || preferences.namespaces.length > 0
  if (result.kind === 'forbidden' && isList && !isNarrowed) return namespacesProblem({ csrfToken, here })
  return problemOf(result, wayBack)
}

export function framedAnswer(
  parts: Pick<DashboardParts, 'assets' | 'clock' | 'directory'>,
  { call: { request }, session: { actor, endsAtMs } }: SignedInCall,
  page: Problem &
    Pick<FrameParts, 'csrfToken' | 'here' | 'section' | 'blockers' | 'tenant'> & {
      readonly preferences: Preferences
    },
): Answered {
  const { preferences, csrfToken, here, section, blockers, tenant, ...problem } = page
  const frame = {
    ...preferences,
    actor,
    endsAtMs,
    csrfToken,
    here,
    blockers,
    tenant,
    ...(section && { section }),
  }
  const answer = documentAnswer(parts, request, {
    ...problem,
    body: (
      <OwnProvidersContext.Provider value={() => ownNames(parts.directory.declarations())}>
        <Frame {...frame}>{problem.body}</Frame>
      </OwnProvidersContext.Provider>
    ),
    cookie: preferences.flash && clearedFlashCookie(factsOf(request)),
  })
  return { ...answer, log: { actor: actorName(actor) } }
}
