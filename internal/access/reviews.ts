import type { KubeFailure, Transport } from '#internal/kube/index.ts'
import { tenantApiVersion } from '#internal/tenants/index.ts'
import { type Action, actionRules, type KubeUser } from './actor.ts'

/** Required audience of Kubernetes tokens: `kubectl create token NAME --audience latchkey`. */
export const tokenAudience = 'latchkey'

/** `otherAudience` means that another service also accepts the token, so callers must not send it to Latchkey. */
export type TokenVerdict =
  | { readonly kind: 'user'; readonly user: KubeUser; readonly endsAtMs: number | null }
  | { readonly kind: 'refused'; readonly cause: 'unknown' | 'otherAudience' }
  | { readonly kind: 'unavailable'; readonly failure: KubeFailure }

const reviewMsMax = 5_000
const answerBytesMax = 1024 * 1024
const groupsMax = 1_000
const extrasMax = 100

/** Refuses a token that is also valid for another audience than Latchkey's. Never throws; repeating it is safe. */
export async function reviewToken(transport: Transport, token: string): Promise<TokenVerdict> {
  const claims = claimsOf(token)
  // Refuses the token without a review, so that a token for another service is not sent to the API server.
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
  // An API server without support for audiences returns no audience, so it has not checked the token's audience.
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
  // The user is refused, not truncated: fewer groups or extras could change the permissions.
  if (groups.length > groupsMax || extras.length > extrasMax) return undefined
  return {
    kind: 'user',
    username,
    uid: typeof uid === 'string' ? uid : '',
    groups,
    extra: Object.fromEntries(extras.map(([name, values]) => [name, textsOf(values)])),
  }
}

/** Reads the claims of a token. Does not verify them: the API server does. Returns undefined if the token is not a JSON Web Token. */
function claimsOf(token: string):
  | {
      readonly audiences: readonly string[]
      readonly endsAtMs: number | null
    }
  | undefined {
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

export interface AccessPlace {
  /** If absent, the review is about the whole cluster. */
  readonly namespace?: string | undefined
  /** Name of the tenant. If absent, the review is about all tenants. */
  readonly name?: string | undefined
}

export type AccessVerdict =
  | { readonly kind: 'allowed' }
  | { readonly kind: 'refused' }
  | { readonly kind: 'unavailable'; readonly failure: KubeFailure }

const [group, version] = tenantApiVersion.split('/')

/** Sends a SubjectAccessReview. Never throws; repeating it is safe. */
export async function reviewAccess(
  transport: Transport,
  user: KubeUser,
  action: Action,
  place: AccessPlace,
): Promise<AccessVerdict> {
  const { verb, subresource } = actionRules[action]
  const answer = await transport.request({
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/subjectaccessreviews',
    body: {
      apiVersion: 'authorization.k8s.io/v1',
      kind: 'SubjectAccessReview',
      spec: {
        resourceAttributes: {
          group,
          version,
          resource: 'tenants',
          verb,
          ...(subresource !== '' && { subresource }),
          ...(place.namespace !== undefined && { namespace: place.namespace }),
          ...(place.name !== undefined && { name: place.name }),
        },
        user: user.username,
        groups: user.groups,
        extra: user.extra,
        ...(user.uid !== '' && { uid: user.uid }),
      },
    },
    msMax: reviewMsMax,
    bytesMax: answerBytesMax,
  })
  if (answer.kind !== 'ok') return { kind: 'unavailable', failure: answer }
  const status = memberOf(answer.value, 'status')
  const isAllowed = memberOf(status, 'allowed') === true && memberOf(status, 'denied') !== true
  return { kind: isAllowed ? 'allowed' : 'refused' }
}
