import type { TenantId } from '#internal/base/index.ts'

/** Somebody whom the API server knows; all that it decides by. */
export interface KubeUser {
  readonly kind: 'user'
  readonly username: string
  readonly uid: string
  readonly groups: readonly string[]
  readonly extra: Readonly<Record<string, readonly string[]>>
}

/** A tenant itself, by one of its API keys of scope `dashboard` or `dashboard:read`. Holds the key's digest, never the key. */
export interface TenantKeyActor {
  readonly kind: 'tenantKey'
  readonly tenantId: TenantId
  readonly keyName: string
  /** In standard base64. */
  readonly keySha256: string
}

/** Whoever started `npm run dev`. */
export interface DevAdmin {
  readonly kind: 'devAdmin'
}

/** Who acts in the backoffice. */
export type Actor = KubeUser | TenantKeyActor | DevAdmin

const nameCharsMax = 200

/**
 * The name by which the audit has somebody: 1 to 200 printable characters, of another beginning for each kind, so that no user can
 * be named as a tenant's key is. Of a name that is too long the end is its digest's.
 */
export function actorName(actor: Actor): string {
  if (actor.kind === 'devAdmin') return 'dev:admin'
  if (actor.kind === 'tenantKey') return `key:${actor.tenantId}/${actor.keyName}`
  const name = `user:${actor.username.toWellFormed()}`
  const isPrintable = !/[\p{Cc}\p{Cf}]/u.test(name)
  if (isPrintable && name.length <= nameCharsMax) return name
  const digest = Bun.SHA256.hash(actor.username, 'hex').slice(0, 32)
  const printable = name.replace(/[\p{Cc}\p{Cf}]/gu, '').slice(0, nameCharsMax - 1 - digest.length)
  return `${printable.toWellFormed()}~${digest}`
}
