export type { JsonObject } from './body.ts'
export { parseJsonObject } from './body.ts'
export { BodyBudget } from './body-budget.ts'
export type { Listening } from './listen.ts'
export { listen, urlHost } from './listen.ts'
export type { RequestObserverOptions } from './observe.ts'
export { createRequestObserver } from './observe.ts'
export type { OpsOptions } from './ops.ts'
export { createOpsServer } from './ops.ts'
export type { AddressBlock, AddressVerdict } from './outbound/address-rules.ts'
export { checkAddress } from './outbound/address-rules.ts'
export type { Outbound, OutboundCall, OutboundOptions } from './outbound/call.ts'
export { createOutbound } from './outbound/call.ts'
export type { CallbackBounds, CallbackRefusal, CheckedCallbackUrl } from './outbound/callback-url.ts'
export { checkCallbackUrl, judgeCallback, portsBlocked } from './outbound/callback-url.ts'
export type { Resolve } from './outbound/resolve.ts'
export type {
  AnswerHeaders,
  CallAnswered,
  CallFailed,
  CallFailureCause,
  CallResult,
} from './outbound/result.ts'
export type { Query } from './query.ts'
export { parseQuery } from './query.ts'
export type {
  Admission,
  Admitted,
  AdmittingRoute,
  Answer,
  AnswerBody,
  Call,
  GuardedRoute,
  Head,
  LogFields,
  PublicRoute,
  Route,
} from './route.ts'
export type { RequestEvent, ServerOptions, Traced } from './server.ts'
export { createServer } from './server.ts'
export { createSourceAddress, networkOf } from './source-address.ts'
export type { Parsed } from './validate.ts'
export { createParser, quoteName } from './validate.ts'
