export { type AcceptContext, type Accepted, acceptWebhook, type WebhookCall } from './accept.ts'
export { type Caller, Callers, type CallersOptions, type RefusedCaller } from './caller.ts'
export { type CatalogueEntry, conditionsText, type TypeSource } from './catalogue.ts'
export { type ParsedProvider, parseProvider } from './declared/manifest.ts'
export { declarationNotes } from './declared/notes.ts'
export { declarationText, findPack, packNames } from './declared/packs.ts'
export { declarationRules, reservedName } from './declared/rules.ts'
export { type Declaration, DeclarationSchema } from './declared/schema.ts'
export { declaredSampleOf, simulateDeclared } from './declared/simulate.ts'
export { type CallTrace, escapedText, traceCall } from './declared/trace.ts'
export { defaultSignatureAgeMsMax, runVectors } from './declared/vectors.ts'
export { type DeadEntry, Drain, type DrainOptions } from './drain.ts'
export { createTestEvent, type TestEventContent } from './event.ts'
export { type Accepting, EventQueue, type EventQueueOptions, SizeClassQueues } from './event-queue.ts'
export { eventCatalogue, eventTypeRoutes, providerNameParam, typesOf } from './event-types.ts'
export { exampleCalls } from './examples.ts'
export {
  allProviderNames,
  declaredNames,
  findDeclaration,
  findProviderName,
  ownNames,
  parseStored,
} from './find-declaration.ts'
export {
  type CallOutcome,
  type Intake,
  type RefusedNote,
  unverifiedOutcomes,
  webhookRoutes,
} from './http.ts'
export { type Ingested, type IngestParts, type IngestRequest, ingestEvent } from './ingest.ts'
export { LargeBodies } from './large-bodies.ts'
export { isObject, type JsonObject, memberReader } from './normalize.ts'
export type { ProviderCall } from './provider.ts'
export { refusalCauses, type UnsignedCall } from './provider.ts'
export {
  createWalletSigner,
  type WalletSigner,
  type WalletTransmission,
  wallet,
  walletSources,
} from './providers/wallet/provider.ts'
export {
  isWholeSample,
  listRefusedCalls,
  purgeRefusedCalls,
  RefusedCalls,
  type RefusedCallView,
  type RefusedCause,
  type RefusedListRequest,
  type RefusedPage,
  refusedCauses,
} from './refused-calls.ts'
export { readSpoolStats, Spool, type SpoolOptions, type SpoolRefusal, type SpoolStats } from './spool.ts'
export { createKeyFetch, type FetchText } from './vendor-keys/fetch.ts'
export { type KeyFetchOutcome, keyFetchOutcomes } from './vendor-keys/store.ts'
export {
  type CertificateSources,
  type FetchedSource,
  fetchedSources,
  VendorKeys,
} from './vendor-keys/vendor-keys.ts'
export { eventAreas, eventTypeTexts } from './vocabulary.ts'
