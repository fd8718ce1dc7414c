export type { Access, AccessObserver, Authenticated, Permission, TenantPlace } from './access.ts'
export { createAccess, namespacesMax, rememberedMsMax } from './access.ts'
export type { Action, Actor, KeyApi, Principal, TenantKeyActor } from './actor.ts'
export {
  actions,
  actorName,
  authenticateApiKey,
  authenticateEventKey,
  keyActions,
  rightOf,
  scopeError,
} from './actor.ts'
export type { AuditFilter, AuditRecord } from './audit.ts'
export {
  type AuditActionFilter,
  auditActionFilters,
  auditExaminedMax,
  auditKeptDays,
  forgetAudit,
  listAudit,
  writeAudit,
  writeLockCommitAudit,
} from './audit.ts'
export {
  fixedOperators,
  type Operator,
  type OperatorEntry,
  type OperatorRole,
  type Operators,
  OperatorsInFile,
  operatorNamePattern,
  operatorRoleNames,
  parseOperators,
  tokenDigest,
} from './operators.ts'
export {
  deleteView,
  forgetSavedViews,
  listSavedViews,
  purgeSavedViews,
  type SavedView,
  savedViewsMax,
  saveView,
  viewNameCharsMax,
  viewQueryCharsMax,
} from './saved-views.ts'
export type { CookieOptions, Session, Sessions } from './sessions.ts'
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
