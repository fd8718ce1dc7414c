import type { Access, Actor } from '#internal/access/index.ts'
import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Refusal } from './outcome.ts'

/** Who calls, or why nobody is let in. */
export type Caller = { readonly kind: 'actor'; readonly actor: Actor } | ApiError

const bearer = /^Bearer +([\x21-\x7e]+) *$/i
const tooManyRetrySeconds = 60

/** Asks who calls, by the bearer token of a call. Never throws. */
export async function findCaller(
  access: Pick<Access, 'authenticate'>,
  { headers }: Request,
): Promise<Caller> {
  const token = bearer.exec(headers.get('authorization') ?? '')?.[1]
  if (token === undefined) return unauthenticated()
  const authenticated = await access.authenticate(token)
  if (authenticated.kind === 'unavailable') return refusalError(authenticated)
  if (authenticated.kind === 'actor') return authenticated
  switch (authenticated.cause) {
    case 'keyScope':
      return apiError(
        'api_key_scope',
        'This API key has neither the scope dashboard nor dashboard:read: ask for a key with one of them',
      )
    case 'tenantSuspended':
      return apiError('tenant_suspended')
    case 'otherAudience':
      return unauthenticated(
        'This token is for others, too: make one with kubectl create token NAME --audience latchkey',
      )
    case 'unknown':
      return unauthenticated()
  }
}

function unauthenticated(message?: string): ApiError {
  return apiError('unauthenticated', message, { 'WWW-Authenticate': 'Bearer realm="latchkey"' })
}

/** What is answered to somebody who is refused. */
export function refusalError(refusal: Refusal): ApiError {
  switch (refusal.kind) {
    case 'forbidden':
      return apiError('forbidden')
    case 'notFound':
      return apiError('not_found')
    case 'invalid':
      return apiError('invalid_request', refusal.problem)
    case 'conflict':
      return apiError('conflict', refusal.problem)
    case 'tooMany':
      return apiError('too_many', refusal.problem, { 'Retry-After': String(tooManyRetrySeconds) })
    case 'unavailable':
      return apiError('unavailable', undefined, retryAfter(refusal.retryAfterMs))
    case 'secretsUnreadable':
      return apiError('secrets_unreadable', undefined, retryAfter(refusal.retryAfterMs))
  }
}

function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(Math.max(1, Math.ceil(ms / 1000))) }
}
