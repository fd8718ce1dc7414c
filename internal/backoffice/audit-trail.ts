import type { Actor, AuditRecord } from '#internal/access/index.ts'
import type { Outcome, Page, PageRequest } from './outcome.ts'
import type { Whose } from './reach.ts'

/** Who did what. */
export interface AuditTrail {
  /** The latest first; what belongs to no tenant is shown to those only who see all of them. */
  list(actor: Actor, request: PageRequest & Whose): Promise<Outcome<Page<AuditRecord>>>
}
