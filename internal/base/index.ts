export {
  type ApiError,
  apiError,
  type ErrorCode,
  errorCodes,
  errorEnvelope,
  errorPageName,
  isApiError,
  statusOf,
} from './api-error.ts'
export { type ErrorHelp, errorHelp } from './error-help.ts'
export {
  createEventId,
  type Day,
  dayAfter,
  type EventId,
  encodeBase32,
  expiryDayOf,
  idPattern,
  isTenantId,
  parseEventId,
  parseTenantId,
  randomToken,
  receivedAtMsOf,
  type TenantId,
  tenantIdChars,
  tenantIdFromBytes,
} from './ids.ts'
export { findJsonError } from './json-error.ts'
export {
  endOfString,
  endOfValue,
  findElements,
  findMembers,
  hasRepeatedMember,
  isJsonObject,
  isNestedTooDeep,
  type JsonObject,
  jsonDepthMax,
  memberText,
  type Span,
} from './json-span.ts'
export { expectPageLimit, pageItemsDefault, pageItemsMax, pageOf } from './page.ts'
export { Bell, Shares, setNewest } from './shares.ts'
export {
  type BackoffBounds,
  backoffMs,
  type Clock,
  Deadlines,
  monthEndMs,
  monthStartMs,
  parseTimestamp,
  systemClock,
  timestampMsMax,
  timestampPattern,
  toWire,
  within,
} from './time.ts'
export { familyPrefixOf, isOfType, parseTypeFilter } from './type-filter.ts'
