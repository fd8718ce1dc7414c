import { createHash } from 'node:crypto'
import { type TenantId, tenantIdFromBytes } from '#internal/base/index.ts'
import { type Pool, withTx } from '#internal/storage/index.ts'
import { callbackField, type KeyRing } from '#internal/tenants/index.ts'
import { testKeyRing } from '../api.ts'
import { callbackSecret } from '../events/callback-receiver.ts'

/** Tenant to clone, and the differences. */
export interface CloneOptions {
  /** Slug of an existing tenant. */
  readonly of: string
  readonly count: number
  /** Fields of the clones' `spec.callback`. */
  readonly callback: { readonly url: string } & Readonly<Record<string, unknown>>
  /** Prefix of their slugs; default `of`. */
  readonly name?: string
  /** Key ring that encrypts their secrets; default `testKeyRing`. */
  readonly keyRing?: KeyRing
}

/**
 * Clones an existing tenant as `<name>-0`, `<name>-1`, … with another callback and no API key, and returns their ids. Takes
 * milliseconds; with manifests it takes a minute. Directories see the clones at their next poll.
 */
export async function cloneTenants(
  pool: Pool,
  { of, count, callback, name = of, keyRing = testKeyRing }: CloneOptions,
): Promise<TenantId[]> {
  const ids = Array.from({ length: count }, (_none, nth) =>
    tenantIdFromBytes(createHash('sha256').update(`${name}-${nth}`).digest().subarray(0, 16)),
  )
  const sealed = ids.map((tenantId) => keyRing.seal({ tenantId, field: callbackField }, callbackSecret))
  await withTx(pool, async (tx) => {
    await tx.query('UPDATE directory_version SET version = version + 1')
    await tx.query(
      `INSERT INTO tenants (id, uid, namespace, name, slug, suspended, spec, version, resource_created_at, created_at, updated_at)
       SELECT c.id, c.id, t.namespace, $4 || '-' || nth, $4 || '-' || nth, false,
         jsonb_set(t.spec, '{callback}', (t.spec -> 'callback') || $3::jsonb), v.version, now(), now(), now()
       FROM tenants t, directory_version v, unnest($1::text[]) WITH ORDINALITY c (id, nth) WHERE t.slug = $2`,
      [ids, of, callback, name],
    )
    await tx.query(
      `INSERT INTO tenant_secrets (tenant_id, field, ordinal, key_id, nonce, ciphertext, source_name, source_version, created_at)
       SELECT id, $2, 0, key_id, nonce, ciphertext, 'clone', '1', now()
       FROM unnest($1::text[], $3::text[], $4::bytea[], $5::bytea[]) s (id, key_id, nonce, ciphertext)`,
      [
        ids,
        callbackField,
        sealed.map(({ keyId }) => keyId),
        sealed.map(({ nonce }) => nonce),
        sealed.map(({ ciphertext }) => ciphertext),
      ],
    )
  })
  return ids
}
