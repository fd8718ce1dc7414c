export { startClusterSource } from './cluster/source.ts'
export { Directory, directoryChannel, notifyDirectories } from './directory.ts'
export type {
  DirectoryCallback,
  DirectoryKey,
  DirectoryNotifications,
  DirectoryProvider,
  DirectoryTenant,
  FoundKey,
} from './directory-index.ts'
export { type RecordStoreOfTenant, readDirectoryVersion } from './directory-store.ts'
export { lineOfField, type SourceProblem } from './folder/parse.ts'
export { type FolderOptions, FolderSource } from './folder/source.ts'
export {
  callbackField,
  KeyRing,
  notificationsField,
  notificationsUrlField,
  openTenantSecrets,
  parseKeyRing,
  providerField,
  SecretOpener,
} from './key-ring.ts'
export type { GateOpening } from './key-ring-gate.ts'
export { KeyRingGate } from './key-ring-gate.ts'
export {
  LockElection,
  type LockElectionEvent,
  type LockElectionOptions,
} from './lock-election.ts'
export type {
  AnyLimitName,
  ApiKeyScope,
  BuiltInProviderName,
  CallbackSpec,
  LimitName,
  Limits,
  NotificationType,
  ProviderName,
  RecordDurability,
  RetentionDays,
  TenantSpec,
} from './model.ts'
export {
  type AcceptedProviderName,
  acceptedProviderNames,
  apiKeyScopes,
  dnsLabel,
  limitAmountMax,
  limitNameCharsMax,
  limitNamePattern,
  limitNames,
  limitNameText,
  notificationTypes,
  ProviderNameSchema,
  parseLimitName,
  providerAliasText,
  providerNamePattern,
  providerNames,
  recordDurabilities,
  reservedProviderName,
  retentionOf,
  Tenant,
  tenantApiVersion,
} from './model.ts'
export {
  neutralProviderName,
  type Problem,
  parseDurationMs,
  parseProviderName,
  parseTenant,
  schemaProblems,
} from './parse.ts'
export { type Declarations, emptyDeclarations } from './providers/declarations.ts'
export type {
  DeclarationRules,
  ProviderObject,
  StoredDeclaration,
  ValidatedProvider,
} from './providers/resource.ts'
export { providerObjects } from './providers/resource.ts'
export { type DeclaredUse, listDeclaredUse } from './providers/store.ts'
export type { TenantData } from './purge.ts'
export { forgetDeletedTenants, forgetSlugReservations } from './purge.ts'
export type { Condition } from './reconcile/conditions.ts'
export { conditionTypes } from './reconcile/conditions.ts'
export type { TenantParts } from './reconcile/context.ts'
export { fenceName, leadTenants, TenantController } from './reconcile/controller.ts'
export { hashApiKey } from './reconcile/plan-keys.ts'
export {
  type DurableTenant,
  endMove,
  listDurableTenants,
  listMovedTenants,
  type MovedTenant,
  moveRecordStores,
} from './record-stores.ts'
export type { TenantManifest, TenantSource } from './source.ts'
export type { LiveTenant } from './store.ts'
export {
  findLiveTenant,
  findWriterFence,
  isKindLimited,
  listLiveTenants,
  listPullOnlyTenants,
  lockLiveTenant,
} from './store.ts'
export { tenants } from './tables.ts'
export {
  type TenantObject,
  tenantFinalizer,
  tenantIdOfUid,
  tenantObjects,
  type WebhookUrl,
  webhookUrls,
} from './tenant-object.ts'
export {
  findTenantHead,
  listTenantHeads,
  listTenantsOfKey,
  listUnreadyTenants,
  readTenantSheet,
  type TenantHead,
  type TenantKeyView,
  type TenantSecretView,
  type TenantSheet,
} from './tenant-views.ts'
export {
  type EmittedLimitName,
  emittedKindOf,
  emittedKindsMax,
  emittedLimitName,
  isEmittedKind,
  isOwnKind,
  misspellingOf,
  type OwnKind,
  ownKinds,
  usageKindCharsMax,
  usageKindPattern,
} from './usage-kinds.ts'
