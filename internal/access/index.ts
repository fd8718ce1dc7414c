export type {
  Access,
  AccessObserver,
  AccessOptions,
  Authenticated,
  Permission,
  TenantPlace,
  Unavailable,
  Visibility,
} from './access.ts'
export { createAccess, namespacesMax } from './access.ts'
export type { Action, Actor, DevAdmin, KubeUser, Principal, TenantKeyActor } from './actor.ts'
export { actions, actorName, authenticateApiKey } from './actor.ts'
export type { AuditEntry, AuditFilter, AuditPage, AuditRecord } from './audit.ts'
export { auditExaminedMax, forgetAudit, listAudit, writeAudit } from './audit.ts'
export { tokenAudience } from './reviews.ts'
export type {
  CookieOptions,
  Session,
  SessionFound,
  SessionStarted,
  Sessions,
  SessionsOptions,
} from './sessions.ts'
export {
  clearedSessionCookie,
  createSessions,
  forgetSessions,
  isCsrfToken,
  purgeSessions,
  readSessionCookie,
  sessionCookie,
  sessionIdleMsMax,
  sessionMsMax,
} from './sessions.ts'
