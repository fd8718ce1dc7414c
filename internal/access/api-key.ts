import { type ApiError, apiError } from '#internal/base/index.ts'
import type { ApiKeyScope, Directory, DirectoryKey, DirectoryTenant } from '#internal/tenants/index.ts'

/** Who an API key belongs to. */
export interface Principal {
  readonly tenant: DirectoryTenant
  readonly key: DirectoryKey
}

const bearer = /^Bearer +(lk_[\x21-\x7e]{1,512}) *$/i

/**
 * Tells whom a call is from by its `Authorization: Bearer lk_…` header, from memory alone.
 * @returns 503 while the directory has never been read, else 403: a key nobody has, an ended one, one of a suspended
 *   tenant, or one without `scope`
 */
export function authenticateApiKey(
  directory: Directory,
  authorization: string | null,
  scope: ApiKeyScope,
): Principal | ApiError {
  if (!directory.hasSnapshot()) return apiError('starting', undefined, { 'Retry-After': '1' })
  const apiKey = bearer.exec(authorization ?? '')?.[1]
  if (apiKey === undefined) return apiError('api_key_invalid')
  // Looked up by digest, so that neither the comparison's time nor a copy of this memory tells a key.
  const found = directory.findKey(Bun.SHA256.hash(apiKey, 'base64'))
  if (!found) return apiError('api_key_invalid')
  if (found.tenant.suspended) return apiError('tenant_suspended')
  if (!found.key.scopes.has(scope)) return apiError('api_key_scope')
  return found
}
