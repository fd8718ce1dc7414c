import type { Access, Sessions } from '#internal/access/index.ts'
import type { Backoffice } from '#internal/backoffice/index.ts'
import { type ApiError, apiError, type Clock, type TenantId } from '#internal/base/index.ts'
import type { Answer, AnswerBody, Call, PublicRoute } from '#internal/http/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { assetsPath, createAssets } from './assets/assets.ts'
import { readPreferences } from './cookies.ts'
import { documentationRoutes } from './documentation/documentation.tsx'
import { missingSite, missingSiteAlone } from './documentation/missing-site.tsx'
import { createLiveStreams } from './live.ts'
import { createWayBack } from './page.ts'
import { pages } from './pages/pages.ts'
import { type Problem, problemOf } from './problem.tsx'
import { documentAnswer } from './render.tsx'
import { maskedToken } from './request.ts'
import { framedAnswer, routeOf } from './serve.tsx'
import { type Answered, findSignedIn, problemAnswer, withSession } from './session.tsx'
import { signInRoutes } from './sign-in.tsx'

/** Dependencies of the dashboard. The caller closes them. */
export interface DashboardOptions {
  readonly backoffice: Backoffice
  readonly access: Pick<Access, 'authenticate'>
  readonly sessions: Sessions
  readonly directory: Pick<Directory, 'findTenantById' | 'declarations'>
  readonly clock: Clock
  /** True if operators sign in with Latchkey's operator tokens instead of a Kubernetes account. Default false. */
  readonly hasOperators?: boolean
  /** Returns a note to show above statistics of a tenant, or of all tenants, that start at `fromMs`. Undefined for no note. */
  readonly statsNote?:
    | ((stats: {
        readonly fromMs: number
        readonly tenantId?: TenantId | undefined
      }) => { readonly title: string; readonly text: string } | undefined)
    | undefined
  /** Reads the version of the status that every page shows. The version changes when a pause or a suspension begins or ends. */
  readStatusVersion(): Promise<string>
}

export interface DashboardParts extends DashboardOptions {
  readonly assets: ReturnType<typeof createAssets>
  readonly live: ReturnType<typeof createLiveStreams>
  readonly wayBack: ReturnType<typeof createWayBack>
}

/** Dashboard of one process. */
export interface Dashboard {
  readonly routes: readonly PublicRoute[]
  /** Renders a server error as a page. Returns undefined for paths that are not pages. */
  presentError(
    error: ApiError,
    request: Request,
    requestId: string,
  ): Pick<Answer<AnswerBody>, 'body' | 'headers'> | undefined
  /** Renders the error page for an unknown path. Returns undefined for paths of the API, and without a session. */
  answerUnknown(call: Call): Promise<Answered | undefined>
  /** Closes the live streams, which would keep the server from stopping. Idempotent. */
  close(): void
  liveCount(): number
}

/** Errors under these paths are not rendered as pages. */
const otherPaths = /^\/(internal|assets)\//

/** Creates the dashboard of a process. The dashboard owns only its assets and the live streams. */
export function createDashboard(options: DashboardOptions): Dashboard {
  const parts: DashboardParts = {
    ...options,
    assets: createAssets(),
    live: createLiveStreams({ readStatus: () => options.readStatusVersion() }),
    wayBack: createWayBack(pages),
  }
  return {
    routes: [
      ...signInRoutes(parts),
      ...pages.map((row) => routeOf(parts, row)),
      liveRoute(parts),
      assetRoute(parts),
      ...documentationRoutes(
        async (call) =>
          (await framedProblem(parts, call, missingSite)) ??
          documentAnswer(parts, call.request, missingSiteAlone),
      ),
    ],
    presentError(error, request, requestId) {
      if (otherPaths.test(new URL(request.url).pathname)) return undefined
      return problemAnswer(parts, { request, requestId }, problemOf(error, parts.wayBack(request)))
    },
    answerUnknown: (call) => answerUnknown(parts, call),
    close: () => parts.live.close(),
    liveCount: () => parts.live.count(),
  }
}

/** Renders the error page of an unknown path. Returns undefined without a session: `presentError` then renders the page. */
async function answerUnknown(parts: DashboardParts, call: Call): Promise<Answered | undefined> {
  if (otherPaths.test(new URL(call.request.url).pathname)) return undefined
  return await framedProblem(parts, call, problemOf(apiError('route_unknown'), parts.wayBack(call.request)))
}

/** Renders a problem in the frame of a signed-in user. Returns undefined without a session. */
async function framedProblem(
  parts: DashboardParts,
  call: Call,
  problem: Problem,
): Promise<Answered | undefined> {
  const found = await findSignedIn(parts, call)
  if (found.kind !== 'signedIn') return undefined
  const { signedIn } = found
  return framedAnswer(parts, signedIn, {
    ...problem,
    preferences: readPreferences(call.request.headers.get('cookie')),
    csrfToken: maskedToken(signedIn.session),
    here: '/',
    tenant: undefined,
    blockers: undefined,
  })
}

function liveRoute(parts: DashboardParts): PublicRoute {
  return {
    access: 'public',
    method: 'GET',
    path: '/live',
    bodyBytesMax: 0,
    handle: (call) =>
      withSession(parts, call, ({ session, query }) =>
        parts.live.open({ sessionKey: session.csrfToken, actorName: session.name }, query['seen']),
      ),
  }
}

function assetRoute({ assets }: DashboardParts): PublicRoute {
  return {
    access: 'public',
    method: 'GET',
    path: assetsPath,
    bodyBytesMax: 0,
    handle: ({ request, params }) => assets.find(params['file'] ?? '', request) ?? apiError('route_unknown'),
  }
}
