import type { Actor } from '#internal/access/index.ts'
import type { TenantId } from '#internal/base/index.ts'
import type { CallResult } from '#internal/http/index.ts'
import type { Outcome } from './outcome.ts'
import type { Done } from './usage.ts'

/** A call of a callback that carries no event of anybody. */
export interface TestEventSent {
  /** Its `webhook-id`. */
  readonly id: string
  /** What the callback answered, secrets hidden; or why it did not. */
  readonly result: CallResult
}

/** What is done with a tenant's callback; needs the right to replay. */
export interface Callbacks {
  /**
   * Calls the callback once, now, signed and judged as every delivery is, with an event of type `latchkey.test`. Works also while the
   * callback is suspended. A repeat is another call, under the same `webhook-id` where the key is the same.
   */
  sendTestEvent(
    actor: Actor,
    request: { readonly tenantId: TenantId; readonly idempotencyKey?: string | undefined },
  ): Promise<Outcome<TestEventSent>>
  /** Lets the deliveries of a suspended callback go on. `isNew` is false where it was not suspended. */
  resume(actor: Actor, tenantId: TenantId): Promise<Outcome<Done>>
}
