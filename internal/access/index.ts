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
export type { Action } from './action.ts'
export { actions } from './action.ts'
export type { Actor, DevAdmin, KubeUser, TenantKeyActor } from './actor.ts'
export { actorName } from './actor.ts'
export type { Principal } from './api-key.ts'
export { authenticateApiKey } from './api-key.ts'
export type { AuditEntry, AuditFilter, AuditPage, AuditRecord } from './audit.ts'
export { auditExaminedMax, listAudit, writeAudit } from './audit.ts'
export { forgetSessions } from './forget-sessions.ts'
export type { Session, SessionFound, SessionStarted, Sessions, SessionsOptions } from './session.ts'
export { createSessions, isCsrfToken, sessionIdleMsMax, sessionMsMax } from './session.ts'
export type { CookieOptions } from './session-cookie.ts'
export { clearedSessionCookie, readSessionCookie, sessionCookie } from './session-cookie.ts'
export { tokenAudience } from './token-review.ts'
