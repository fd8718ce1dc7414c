import type { Actor } from '#internal/access/index.ts'
import { idPattern, type TenantId } from '#internal/base/index.ts'
import { isWholeSample, listRefusedCalls, type RefusedCallView } from '#internal/intake/index.ts'
import type { Redactor } from '#internal/redaction/index.ts'
import { attempt } from './attempt.ts'
import { cursorOf, limitOf, type Outcome, ok, type Page, type PageRequest } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { providerOf } from './provider-of.ts'
import { reachTenant } from './reach.ts'
import { type RedactorOf, redactHeaders } from './redaction.ts'

/** A refused call, secrets hidden. */
export interface RefusedCall extends Omit<RefusedCallView, 'headers'> {
  readonly headers: Readonly<Record<string, string>>
}

/** Which calls are listed: those that all of it applies to. */
export interface RefusedListRequest extends PageRequest {
  readonly tenantId: TenantId
  /** A neutral name or a vendor's. */
  readonly provider?: string | undefined
  readonly cause?: string | undefined
}

/** Calls that were refused to a tenant, with their causes. */
export interface RefusedDesk {
  /** Newest first. */
  list(actor: Actor, request: RefusedListRequest): Promise<Outcome<Page<RefusedCall>>>
}

const cursorForm = new RegExp(idPattern('ref'))

/** Makes the use cases of refused calls. */
export function createRefusedDesk(parts: BackofficeParts, redactorOf: RedactorOf): RefusedDesk {
  return {
    list: (actor, request) =>
      attempt(parts, async () => {
        const limit = limitOf(request)
        if (limit.kind !== 'ok') return limit
        const { tenantId, cause } = request
        const provider = providerOf(request)
        if (provider.kind !== 'ok') return provider
        const after = cursorOf(request, (text) => (cursorForm.test(text) ? text : undefined))
        if (after.kind !== 'ok') return after
        const reached = await reachTenant(parts, actor, tenantId)
        if (reached.kind !== 'ok') return reached
        const asked = {
          ...{ tenantId, limit: limit.value },
          ...(after.value !== undefined && { after: after.value }),
          ...(provider.value !== undefined && { provider: provider.value }),
          ...(cause !== undefined && { cause }),
        }
        const { calls, next } = await listRefusedCalls(parts.readPool, asked, parts.clock.now())
        const redactor = redactorOf(reached.value)
        const items = calls.map((call) => ({
          ...call,
          headers: redactHeaders(redactor, call.headers),
          sample: call.sample === null ? null : redactSample(redactor, call.sample),
        }))
        return ok({ items, next })
      }),
  }
}

/** Where it is the start of a body, a secret may stand astride its end. */
function redactSample(redactor: Redactor, sample: string): string {
  return redactor.payload(sample, isWholeSample(sample) ? sample.length : sample.length - 1).text
}
