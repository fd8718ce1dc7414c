import type { Access, Sessions } from '#internal/access/index.ts'
import type { Backoffice } from '#internal/backoffice/index.ts'
import { type ApiError, apiError, type Clock, type TenantId } from '#internal/base/index.ts'
import type { Answer, AnswerBody, Call, PublicRoute } from '#internal/http/index.ts'
import type { Directory } from '#internal/tenants/index.ts'
import { type Assets, assetsPath, createAssets } from './assets/assets.ts'
import { readPreferences } from './cookies.ts'
import { createLiveStreams, type LiveStreams } from './live.ts'
import { createWayBack, type FindWayBack } from './page.ts'
import { pages } from './pages/pages.ts'
import { problemOf } from './problem.tsx'
import { maskedToken } from './request.ts'
import { framedAnswer, routeOf } from './serve.tsx'
import { type Answered, findSignedIn, problemAnswer, withSession } from './session.tsx'
import { signInRoutes } from './sign-in.tsx'

/** Dependencies of the dashboard. Their owner closes them. */
export interface DashboardOptions {
  readonly backoffice: Backoffice
  readonly access: Pick<Access, 'authenticate'>
  readonly sessions: Sessions
  readonly directory: Pick<Directory, 'findTenantById'>
  readonly clock: Clock
  /** The sign-in page asks for the token of `npm run dev`. Default false. */
  readonly isDev?: boolean
  readonly statsNote?: StatsNote | undefined
}

/** Returns a note to show above the stats of a tenant, or of all, from a time on; undefined for none. */
export type StatsNote = (stats: {
  readonly fromMs: number
  readonly tenantId?: TenantId | undefined
}) => { readonly title: string; readonly text: string } | undefined

/** Dependencies of every route. */
export interface DashboardParts extends DashboardOptions {
  readonly assets: Assets
  readonly live: LiveStreams
  readonly wayBack: FindWayBack
}

/** The dashboard of a process. */
export interface Dashboard {
  readonly routes: readonly PublicRoute[]
  /** Renders a server error as a page; undefined for paths that are not pages. */
  presentError(
    error: ApiError,
    request: Request,
    requestId: string,
  ): Pick<Answer<AnswerBody>, 'body' | 'headers'> | undefined
  /** Answers an unknown path; within the frame if the caller is signed in. */
  answerUnknown(call: Call): Promise<Answered>
  /** Ends the live streams, which would keep the server from stopping. Idempotent. */
  close(): void
  /** Number of open live streams, for the metric. */
  liveCount(): number
}

/** Paths whose errors are not rendered as pages. */
const otherPaths = /^\/(internal|assets)\//

/** Creates the dashboard of a process. It owns only its assets and the live streams. */
export function createDashboard(options: DashboardOptions): Dashboard {
  const parts: DashboardParts = {
    ...options,
    assets: createAssets(),
    live: createLiveStreams(),
    wayBack: createWayBack(pages),
  }
  return {
    routes: [
      ...signInRoutes(parts),
      ...pages.map((row) => routeOf(parts, row)),
      liveRoute(parts),
      assetRoute(parts),
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

/** Without a session the bare page is shown: a redirect to the sign-in would lead back here. */
async function answerUnknown(parts: DashboardParts, call: Call): Promise<Answered> {
  const unknown = apiError('route_unknown')
  if (otherPaths.test(new URL(call.request.url).pathname)) return unknown
  const found = await findSignedIn(parts, call)
  if (found.kind !== 'signedIn') return unknown
  const { signedIn } = found
  return framedAnswer(parts, signedIn, {
    ...problemOf(unknown, parts.wayBack(call.request)),
    preferences: readPreferences(call.request.headers.get('cookie')),
    csrfToken: maskedToken(signedIn.session),
    ...{ here: '/', tenant: undefined },
  })
}

function liveRoute(parts: DashboardParts): PublicRoute {
  return {
    ...{ access: 'public', method: 'GET', path: '/live', bodyBytesMax: 0 },
    handle: (call) =>
      withSession(parts, call, ({ session }) =>
        parts.live.open({ sessionKey: session.csrfToken, actorName: session.name }),
      ),
  }
}

function assetRoute({ assets }: DashboardParts): PublicRoute {
  return {
    ...{ access: 'public', method: 'GET', path: assetsPath, bodyBytesMax: 0 },
    handle: ({ request, params }) =>
      assets.find(params['file'] ?? '', request.headers.get('accept-encoding')) ?? apiError('route_unknown'),
  }
}
