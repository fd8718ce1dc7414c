export { type AcceptContext, type Accepted, acceptWebhook, type WebhookCall } from './accept.ts'
export { type Caller, Callers, type CallersOptions, type RefusedCaller, withCertificate } from './caller.ts'
export { createCertificateFetch } from './certificate-fetch.ts'
export {
  type CertificateFetchOutcome,
  CertificateStore,
  type CertificateStoreOptions,
  certificateFetchOutcomes,
} from './certificate-store.ts'
export type { CertificateSources } from './certificate-url.ts'
export { type DeadEntry, Drain, type DrainOptions } from './drain.ts'
export { HeaderRules } from './event-headers.ts'
export { EventQueue, type EventQueueOptions } from './event-queue.ts'

export { type CallOutcome, type Intake, unverifiedOutcomes, webhookRoutes } from './http.ts'
export { type HandedIn, type HandInParts, type HandInRequest, handInEvent } from './ingest.ts'
export { LargeBodies } from './large-bodies.ts'
export {
  listRefusedCalls,
  type RefusedCallView,
  type RefusedListRequest,
  type RefusedPage,
} from './list-refused-calls.ts'
export { refusalCauses, type SigningCertificate } from './provider.ts'
export { signCard } from './providers/card/signer.ts'
export { secretHeaders } from './providers/registry.ts'
export { wallet } from './providers/wallet/provider.ts'
export { createWalletSigner, type WalletSigner, type WalletTransmission } from './providers/wallet/signer.ts'
export { walletSources } from './providers/wallet/sources.ts'
export { isWholeSample, RefusedCalls, type RefusedCause, refusedCauses } from './refused-calls.ts'
export { type Accepting, SizedQueues } from './sized-queues.ts'
export { Spool, type SpoolOptions, type SpoolRefusal, type SpoolStats } from './spool.ts'
