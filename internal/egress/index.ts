export { type AddressBlock, type AddressVerdict, checkAddress } from './address-rules.ts'
export { createOutbound, type Outbound, type OutboundCall, type OutboundOptions } from './call.ts'
export {
  type CallbackBounds,
  type CallbackRefusal,
  type CheckedCallbackUrl,
  checkCallbackUrl,
  judgeCallback,
  portsBlocked,
} from './callback-url.ts'
export type { Resolve } from './resolve.ts'
export type { AnswerHeaders, CallAnswered, CallFailed, CallFailureCause, CallResult } from './result.ts'
