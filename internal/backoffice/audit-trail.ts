import { type Actor, type AuditRecord, auditExaminedMax, listAudit } from '#internal/access/index.ts'
import { attempt } from './attempt.ts'
import { listInScope } from './merge-pages.ts'
import { cursorOf, invalid, limitOf, type Outcome, ok, type Page, type PageRequest } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachList, type Whose } from './reach.ts'

/** Which lines of the audit log are listed. */
interface AuditListRequest extends PageRequest, Whose {
  /** Part of who did it, in any case; at most 200 characters, as `action`. */
  readonly actor?: string | undefined
  /** What it was, or how that begins. */
  readonly action?: string | undefined
  /** Done then or later, ms since the epoch. */
  readonly fromMs?: number | undefined
  /** Done earlier than that. */
  readonly toMs?: number | undefined
}

/** Who did what. */
export interface AuditTrail {
  /** The latest first; what belongs to no tenant is shown to those only who see all of them. */
  list(actor: Actor, request: AuditListRequest): Promise<Outcome<Page<AuditRecord>>>
}

const searchCharsMax = 200

/** Makes the use case of the audit log. */
export function createAuditTrail(parts: BackofficeParts): AuditTrail {
  return { list: (actor, request) => attempt(parts, () => list(parts, actor, request)) }
}

async function list(
  parts: BackofficeParts,
  actor: Actor,
  request: AuditListRequest,
): Promise<Outcome<Page<AuditRecord>>> {
  const limit = limitOf(request)
  if (limit.kind !== 'ok') return limit
  const beforeId = cursorOf(request, readCursor)
  if (beforeId.kind !== 'ok') return beforeId
  const { tenantId, namespaces, actor: by, action, fromMs, toMs } = request
  if ([by, action].some((text) => text !== undefined && text.length > searchCharsMax))
    return invalid(`A search has at most ${searchCharsMax} characters`)
  const scope = await reachList(parts, actor, { tenantId, namespaces })
  if (scope.kind !== 'ok') return scope
  const asked = { beforeId: beforeId.value, limit: limit.value, actor: by, action, fromMs, toMs }
  // A page looks at as many lines however many tenants it is of.
  const sharers = scope.value.kind === 'all' ? 1 : Math.max(1, scope.value.tenantIds.length)
  const examinedMax = Math.ceil(auditExaminedMax / sharers)
  const { items, next } = await listInScope<AuditRecord, number>(scope.value, {
    limit: limit.value,
    positionOf: ({ id }) => id,
    async list(id) {
      const page = await listAudit(parts.readPool, { ...asked, examinedMax, tenantId: id })
      return { items: page.entries, next: page.next }
    },
  })
  return ok({ items, next: next?.toString() })
}

function readCursor(text: string): number | undefined {
  const id = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(id) ? id : undefined
}
