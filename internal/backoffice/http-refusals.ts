import { type ApiError, apiError } from '#internal/base/index.ts'
import type { Refusal } from './outcome.ts'

const tooManyRetryMs = 60_000

export function refusalError(refusal: Refusal): ApiError {
  switch (refusal.kind) {
    case 'forbidden':
      return apiError('forbidden')
    case 'notFound':
      return apiError('not_found', refusal.problem)
    case 'invalid': {
      const { field, problem } = refusal
      return apiError('invalid_request', field === undefined ? problem : `"${field}" ${problem}`)
    }
    case 'conflict':
      return apiError(refusal.code ?? 'conflict', refusal.problem)
    case 'keyReused':
      return apiError('idempotency_key_reused', refusal.problem)
    case 'tooMany':
      return apiError(refusal.code, refusal.problem, retryAfter(refusal.retryAfterMs ?? tooManyRetryMs))
    case 'unavailable':
      return apiError(refusal.code ?? 'unavailable', undefined, retryAfter(refusal.retryAfterMs))
    case 'secretsUnreadable':
      return apiError('secrets_unreadable', undefined, retryAfter(refusal.retryAfterMs))
  }
}

function retryAfter(ms: number): Readonly<Record<string, string>> {
  return { 'Retry-After': String(Math.max(1, Math.ceil(ms / 1000))) }
}
