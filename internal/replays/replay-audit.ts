import type { TenantId } from '#internal/base/index.ts'
import type { Queryable } from '#internal/events/index.ts'

/** One line of the audit about replays. */
export interface ReplayAudit {
  readonly actor: string
  readonly action: 'events.replayed' | 'replays.started' | 'replays.cancelled'
  /** null: all tenants'. */
  readonly tenantId: TenantId | null
  /** Holds no secret and no payload. */
  readonly detail: object
}

/** Appends to the audit; inside the transaction that does the deed. */
export async function insertReplayAudit(connection: Queryable, entry: ReplayAudit): Promise<void> {
  await connection.query({
    text: 'INSERT INTO audit (at, actor, action, tenant_id, detail) VALUES (now(), $1, $2, $3, $4)',
    values: [entry.actor, entry.action, entry.tenantId, JSON.stringify(entry.detail)],
  })
}
