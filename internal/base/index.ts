export {
  type ApiError,
  apiError,
  type ErrorCode,
  type ErrorEnvelope,
  errorCodes,
  errorEnvelope,
  isApiError,
  statusOf,
} from './api-error.ts'
export { type BackoffBounds, backoffMs } from './backoff.ts'
export { Bell } from './bell.ts'
export { type Clock, systemClock } from './clock.ts'
export { Deadlines } from './deadlines.ts'
export {
  createEventId,
  type Day,
  dayAfter,
  type EventId,
  expiryDayOf,
  parseEventId,
  receivedAtMsOf,
} from './event-id.ts'
export {
  type Branded,
  decodeBase32,
  encodeBase32,
  idPattern,
  isTenantId,
  parseTenantId,
  randomToken,
  type TenantId,
  tenantIdFromBytes,
} from './id.ts'
export {
  findElements,
  findMembers,
  hasRepeatedMember,
  isNestedTooDeep,
  jsonDepthMax,
  type MemberSpans,
  type Span,
} from './json-span.ts'
export { expectPageLimit, pageOf } from './page.ts'
export { Shares } from './shares.ts'
export { within } from './within.ts'
