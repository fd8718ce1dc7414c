export { type AddressBlock, type AddressVerdict, checkAddress } from './address.ts'
export {
  type CallAnswered,
  type CallFailed,
  type CallResult,
  createOutbound,
  type Outbound,
  type OutboundCall,
  type OutboundOptions,
  type Resolve,
} from './call.ts'
export {
  type CallbackBounds,
  type CallbackRefusal,
  type CheckedCallbackUrl,
  checkCallbackUrl,
  portsBlocked,
  validateCallback,
} from './callback-url.ts'
export { type AnswerHeaders, type CallFailureCause, type CallTrace, unsentCauses } from './exchange.ts'
export { type HeaderLine, type KeptHeaders, requestHeaders } from './http1.ts'
