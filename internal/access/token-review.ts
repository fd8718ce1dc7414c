import type { KubeFailure, Transport } from '#internal/kube/index.ts'
import type { KubeUser } from './actor.ts'

/** The one audience that tokens for us have: `kubectl create token NAME --audience latchkey`. */
export const tokenAudience = 'latchkey'

/** What the API server says of a token. `otherAudience`: it would open other doors too, so it is not for us to see. */
export type TokenVerdict =
  | { readonly kind: 'user'; readonly user: KubeUser; readonly endsAtMs: number | null }
  | { readonly kind: 'refused'; readonly cause: 'unknown' | 'otherAudience' }
  | { readonly kind: 'unavailable'; readonly failure: KubeFailure }

/** How long the API server may take for a review. */
export const reviewMsMax = 5_000
const answerBytesMax = 1024 * 1024
const groupsMax = 1_000
const extrasMax = 100

/**
 * Asks the API server whose token it is, for our audience alone. A token that is good for another audience beside it is refused.
 * Never throws; repeating it is safe.
 */
export async function reviewToken(transport: Transport, token: string): Promise<TokenVerdict> {
  const claims = claimsOf(token)
  // Before it is asked: nobody but us should see a token of ours, and we should see no other.
  if (claims !== undefined && claims.audiences.some((audience) => audience !== tokenAudience))
    return { kind: 'refused', cause: 'otherAudience' }
  const answer = await transport.request({
    method: 'POST',
    path: '/apis/authentication.k8s.io/v1/tokenreviews',
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenReview',
      spec: { token, audiences: [tokenAudience] },
    },
    secret: true,
    msMax: reviewMsMax,
    bytesMax: answerBytesMax,
  })
  if (answer.kind !== 'ok') return { kind: 'unavailable', failure: answer }
  const status = memberOf(answer.value, 'status')
  if (memberOf(status, 'authenticated') !== true) return { kind: 'refused', cause: 'unknown' }
  // A server that knows nothing of audiences gives none: then it has not looked at them.
  if (!textsOf(memberOf(status, 'audiences')).includes(tokenAudience))
    return { kind: 'refused', cause: 'otherAudience' }
  const user = userOf(memberOf(status, 'user'))
  if (user === undefined) return { kind: 'refused', cause: 'unknown' }
  return { kind: 'user', user, endsAtMs: claims?.endsAtMs ?? null }
}

function userOf(value: unknown): KubeUser | undefined {
  const username = memberOf(value, 'username')
  if (typeof username !== 'string' || username === '') return undefined
  const uid = memberOf(value, 'uid')
  const groups = textsOf(memberOf(value, 'groups'))
  const extra = memberOf(value, 'extra')
  const extras = typeof extra === 'object' && extra !== null ? Object.entries(extra) : []
  // With a part of what it is somebody could be refused, or be allowed, what the whole is not.
  if (groups.length > groupsMax || extras.length > extrasMax) return undefined
  return {
    kind: 'user',
    username,
    uid: typeof uid === 'string' ? uid : '',
    groups,
    extra: Object.fromEntries(extras.map(([name, values]) => [name, textsOf(values)])),
  }
}

interface Claims {
  readonly audiences: readonly string[]
  readonly endsAtMs: number | null
}

/** What a JSON web token says of itself; the API server says whether it is true. undefined for a token of another kind. */
function claimsOf(token: string): Claims | undefined {
  const [, payload] = token.split('.')
  if (payload === undefined) return undefined
  try {
    const claims: unknown = JSON.parse(Buffer.from(payload, 'base64url').toString('utf8'))
    const audience = memberOf(claims, 'aud')
    const ends = memberOf(claims, 'exp')
    return {
      audiences: typeof audience === 'string' ? [audience] : textsOf(audience),
      endsAtMs: typeof ends === 'number' && Number.isFinite(ends) ? ends * 1000 : null,
    }
  } catch {
    return undefined
  }
}

function memberOf(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Readonly<Record<string, unknown>>)[name]
    : undefined
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((each) => typeof each === 'string') : []
}
