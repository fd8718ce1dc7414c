export { type AddressBlock, type AddressVerdict, checkAddress } from './address.ts'
export {
  type AnswerHeaders,
  type CallAnswered,
  type CallFailed,
  type CallFailureCause,
  type CallResult,
  type CallTrace,
  callFailures,
  createOutbound,
  type Outbound,
  type OutboundCall,
  type OutboundOptions,
  type Resolve,
  unsentCauses,
} from './call.ts'
export {
  type CallbackBounds,
  type CallbackRefusal,
  type CheckedCallbackUrl,
  checkCallbackUrl,
  portsBlocked,
  validateCallback,
} from './callback-url.ts'
export { type HeaderLine, type KeptHeaders, requestHeaders } from './http1.ts'
