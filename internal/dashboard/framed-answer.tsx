import { actorName } from '#internal/access/index.ts'
import { clearedFlashCookie, type Preferences } from './cookies.ts'
import { Document, Frame, type FrameParts } from './layout.tsx'
import type { DashboardParts } from './parts.ts'
import type { Problem } from './problem.tsx'
import { documentAnswer } from './render.ts'
import { factsOf } from './request-facts.ts'
import type { Answered, SignedInCall } from './signed-in.tsx'

/** What the frame is to hold, and what stands in it. */
export interface Framed extends Problem, Pick<FrameParts, 'csrfToken' | 'here' | 'section' | 'tenant'> {
  readonly preferences: Preferences
}

/** Makes the answer that holds a page, or a problem, within the frame of whoever is signed in. */
export function framedAnswer(
  { assets }: Pick<DashboardParts, 'assets'>,
  { call: { request }, session: { actor, endsAtMs } }: SignedInCall,
  { title, body, status, outcome, retryAfterSeconds, preferences, ...frame }: Framed,
): Answered {
  const { theme, namespaces, flash } = preferences
  const answer = documentAnswer(
    <Document assets={assets} title={title} theme={theme}>
      <Frame {...frame} {...{ actor, endsAtMs, theme, namespaces, flash }}>
        {body}
      </Frame>
    </Document>,
    {
      ...{ status, outcome, acceptEncoding: request.headers.get('accept-encoding') },
      headers: {
        ...(flash && { 'Set-Cookie': clearedFlashCookie(factsOf(request)) }),
        ...(retryAfterSeconds !== undefined && { 'Retry-After': String(retryAfterSeconds) }),
      },
    },
  )
  return { ...answer, log: { actor: actorName(actor) } }
}
