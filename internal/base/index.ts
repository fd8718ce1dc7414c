export type { ApiError, ErrorCode, ErrorEnvelope } from './api-error.ts'
export { apiError, errorCodes, errorEnvelope, isApiError, statusOf } from './api-error.ts'
export type { BackoffBounds } from './backoff.ts'
export { backoffMs } from './backoff.ts'
export { Bell } from './bell.ts'
export type { Clock } from './clock.ts'
export { systemClock } from './clock.ts'
export { Deadlines } from './deadlines.ts'
export type { Day, EventId } from './event-id.ts'
export { createEventId, dayAfter, expiryDayOf, parseEventId, receivedAtMsOf } from './event-id.ts'
export type { Branded, TenantId } from './id.ts'
export {
  decodeBase32,
  encodeBase32,
  idPattern,
  isTenantId,
  parseTenantId,
  randomToken,
  tenantIdFromBytes,
} from './id.ts'
export type { MemberSpans, Span } from './json-span.ts'
export { findElements, findMembers, hasRepeatedMember, isNestedTooDeep, jsonDepthMax } from './json-span.ts'
export { expectPageLimit, pageOf } from './page.ts'
export type { RedactedText, Redactor } from './redact.ts'
export { createRedactor, shownCharsMax } from './redact.ts'
export { isCredentialHeader, isSecretName } from './redact-names.ts'
export { Shares } from './shares.ts'
export { within } from './within.ts'
