import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { RefusedCallView } from '#internal/webhooks/index.ts'
import type { Outcome, Page, PageRequest } from './outcome.ts'

/** A refused call, secrets hidden. */
export interface RefusedCall extends Omit<RefusedCallView, 'headers'> {
  readonly headers: Readonly<Record<string, string>>
}

/** Calls that were refused to a tenant, with their causes. */
export interface RefusedDesk {
  /** Newest first. */
  list(
    actor: Actor,
    request: PageRequest & { readonly tenantId: TenantId },
  ): Promise<Outcome<Page<RefusedCall>>>
}
