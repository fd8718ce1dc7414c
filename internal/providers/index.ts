export { findProvider, providers } from './built-in/registry.ts'
export {
  createWalletSigner,
  type WalletSigner,
  wallet,
  walletSources,
} from './built-in/wallet/provider.ts'
export {
  type CatalogueEntry,
  conditionsText,
  eventAreas,
  eventTypeTexts,
  type TypeSource,
} from './catalogue.ts'
export { memberReader, readEventText } from './declared/call.ts'
export { isDottedType, readCall, readEventId, readRawType } from './declared/event.ts'
export { type ParsedProvider, parseProvider } from './declared/manifest.ts'
export { declarationNotes } from './declared/notes.ts'
export { declarationRules, reservedName } from './declared/rules.ts'
export { type Declaration, DeclarationSchema } from './declared/schema.ts'
export { declarationText, findShipped, shippedNames } from './declared/shipped-declarations.ts'
export { declaredSampleOf, simulateDeclared } from './declared/simulate.ts'
export { type CallTrace, traceCall, traceSteps } from './declared/trace.ts'
export { defaultSignatureAgeMsMax, runVectors } from './declared/vectors.ts'
export { eventCatalogue, eventTypeRoutes, providerNameParam, typesOf } from './event-types.ts'
export { type ExampleCall, exampleCalls, exampleSecret, exampleSignedAt, formMedia } from './examples.ts'
export {
  adapterOf,
  allProviderNames,
  declaredNames,
  findDeclaration,
  findProviderName,
  type KnownProvider,
  KnownProviders,
  type OnUnusable,
  ownNames,
  parseStored,
  unusable,
} from './known-providers.ts'
export {
  type AnyProvider,
  type CallRequest,
  type CertificateProvider,
  type HandshakeAnswer,
  type Provider,
  type ProviderCall,
  type ProviderEvent,
  type ProviderHeader,
  type ProviderSettings,
  type RefusalCause,
  type Refused,
  refusalCauses,
  type UnsignedCall,
} from './provider.ts'
export type { TrustedSigner } from './vendor-keys/chain.ts'
export { createKeyFetch, type FetchText } from './vendor-keys/fetch.ts'
export { type KeySource, parsePublishedKeys } from './vendor-keys/published-keys.ts'
export { type KeyFetchOutcome, keyFetchOutcomes } from './vendor-keys/store.ts'
export {
  type CertificateSources,
  type FetchedSource,
  fetchedSources,
  VendorKeys,
} from './vendor-keys/vendor-keys.ts'
