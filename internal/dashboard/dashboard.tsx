import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Answer, AnswerBody, Call, PublicRoute } from '#internal/http/index.ts'
import { assetsPath, createAssets } from './assets/assets.ts'
import { readPreferences } from './cookies.ts'
import { maskedToken } from './form-token.ts'
import { framedAnswer } from './framed-answer.tsx'
import { createLiveStreams } from './live.ts'
import { pages } from './pages/pages.ts'
import type { DashboardOptions, DashboardParts } from './parts.ts'
import { problemOf } from './problem.tsx'
import { routeOf } from './serve-row.tsx'
import { signInRoutes } from './sign-in-routes.tsx'
import { type Answered, findSignedIn, problemAnswer, withSession } from './signed-in.tsx'
import { createWayBack } from './way-back.ts'

/** The dashboard of a process. */
export interface Dashboard {
  readonly routes: readonly PublicRoute[]
  /** How an error looks on its paths; undefined on those of others. For the server. */
  presentError(
    error: ApiError,
    request: Request,
    requestId: string,
  ): Pick<Answer<AnswerBody>, 'body' | 'headers'> | undefined
  /** Answers a path that nobody has: with the way to everything else for whoever is signed in. For the server. */
  answerUnknown(call: Call): Promise<Answered>
  /** Ends the live streams, which would keep the server from stopping. Repeating it is harmless. */
  close(): void
  /** Pages that are followed live, for the metric. */
  liveCount(): number
}

/** Paths of the server's that are not for people. */
const otherPaths = /^\/(internal|assets)\//

/** Makes the dashboard of a process. It holds nothing but its assets and the live streams. */
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

/** Whoever is not signed in gets the bare page, and is not led to the sign-in, which would lead back here. */
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

/** Anybody may load them: they hold nothing of anybody. */
function assetRoute({ assets }: DashboardParts): PublicRoute {
  return {
    ...{ access: 'public', method: 'GET', path: assetsPath, bodyBytesMax: 0 },
    handle: ({ request, params }) =>
      assets.find(params['file'] ?? '', request.headers.get('accept-encoding')) ?? apiError('route_unknown'),
  }
}
