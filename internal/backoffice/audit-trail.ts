import { type Actor, type AuditRecord, listAudit } from '#internal/access/index.ts'
import { attempt } from './attempt.ts'
import { mergePages } from './merge-pages.ts'
import { invalid, limitOf, type Outcome, ok, type Page, type PageRequest } from './outcome.ts'
import type { BackofficeParts } from './parts.ts'
import { reachList, type Whose } from './reach.ts'

/** Who did what. */
export interface AuditTrail {
  /** The latest first; what belongs to no tenant is shown to those only who see all of them. */
  list(actor: Actor, request: PageRequest & Whose): Promise<Outcome<Page<AuditRecord>>>
}

/** Makes the use case of the audit log. */
export function createAuditTrail(parts: BackofficeParts): AuditTrail {
  return { list: (actor, request) => attempt(parts, () => list(parts, actor, request)) }
}

async function list(
  parts: BackofficeParts,
  actor: Actor,
  request: PageRequest & Whose,
): Promise<Outcome<Page<AuditRecord>>> {
  const limit = limitOf(request)
  if (limit.kind !== 'ok') return limit
  const beforeId = request.after === undefined ? undefined : readCursor(request.after)
  if (request.after !== undefined && beforeId === undefined)
    return invalid('This cursor is none of ours: begin with the first page')
  const scope = await reachList(parts, actor, request)
  if (scope.kind !== 'ok') return scope
  const asked = { beforeId, limit: limit.value }
  if (scope.value.kind === 'all') {
    const { entries, next } = await listAudit(parts.pool, asked)
    return ok({ items: entries, next: next?.toString() })
  }
  const { items, next } = await mergePages<AuditRecord, number>({
    tenantIds: scope.value.tenantIds,
    limit: limit.value,
    positionOf: ({ id }) => id,
    async list(tenantId) {
      const page = await listAudit(parts.pool, { ...asked, tenantId })
      return { items: page.entries, next: page.next }
    },
  })
  return ok({ items, next: next?.toString() })
}

function readCursor(text: string): number | undefined {
  const id = /^[1-9]\d{0,15}$/.test(text) ? Number(text) : undefined
  return Number.isSafeInteger(id) ? id : undefined
}
