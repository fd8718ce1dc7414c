export { startClusterSource } from './cluster/cluster-source.ts'
export {
  Directory,
  type DirectoryCallback,
  type DirectoryTenant,
  directoryChannel,
  type FoundKey,
  notifyDirectories,
} from './directory.ts'
export type {
  DirectoryKey,
  DirectoryNotifications,
  DirectoryProvider,
  RecordStoreOfTenant,
} from './directory-codec.ts'
export { readDirectoryVersion } from './directory-store.ts'
export { type FolderOptions, FolderSource } from './folder/folder-source.ts'
export { lineOfField, type SourceProblem } from './folder/parse-file.ts'
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
export type { ApiKeyScope, RecordDurability, RetentionDays, TenantSpec } from './model.ts'
export { apiKeyScopes, recordDurabilities, retentionOf, Tenant, tenantApiVersion } from './model.ts'
export { type Problem, parseTenant, schemaProblems } from './parse-tenant.ts'
export { providerAcceptance, stagedProvider, walletStageText } from './provider-acceptance.ts'
export type {
  DeclarationRules,
  ProviderObject,
  StoredDeclaration,
  ValidatedProvider,
} from './providers/provider-object.ts'
export { providerObjects } from './providers/provider-object.ts'
export { type Declarations, emptyDeclarations } from './providers/provider-store.ts'
export { forgetDeletedTenants, forgetSlugReservations } from './purge.ts'
export { type Condition, conditionTypes } from './reconcile/conditions.ts'
export type { TenantParts } from './reconcile/context.ts'
export { hashApiKey, keyPrefixChars } from './reconcile/plan-keys.ts'
export { fenceName, leadTenants, TenantController } from './reconcile/tenant-controller.ts'
export {
  endMove,
  listMovedTenants,
  type MovedTenant,
  moveRecordStores,
} from './record-stores.ts'
export type { NotificationType } from './spec-destinations.ts'
export {
  notificationFormats,
  notificationTypes,
  parseDurationMs,
  retryScheduleDefault,
} from './spec-destinations.ts'
export { dnsLabel, type FieldRule } from './spec-fields.ts'
export type { AnyLimitName, LimitName, Limits } from './spec-limits.ts'
export {
  type EmittedLimitName,
  emittedKindOf,
  emittedKindsMax,
  emittedLimitName,
  isEmittedKind,
  isOwnKind,
  limitAmountMax,
  limitNameCharsMax,
  limitNamePattern,
  limitNames,
  limitNameText,
  misspellingOf,
  type OwnKind,
  ownKinds,
  parseLimitName,
  usageKindCharsMax,
  usageKindPattern,
} from './spec-limits.ts'
export type { BuiltInProviderName, ProviderName } from './spec-providers.ts'
export {
  type AcceptedProviderName,
  acceptedProviderNames,
  neutralProviderName,
  ProviderNameSchema,
  parseProviderName,
  providerAliasText,
  providerNamePattern,
  providerNames,
  reservedProviderName,
} from './spec-providers.ts'
export { ProviderStatus, TenantStatus } from './status-schemas.ts'
export { tenants } from './tables.ts'
export type { TenantData } from './tenant-data.ts'
export {
  type TenantObject,
  tenantFinalizer,
  tenantIdOfUid,
  tenantObjects,
  type WebhookUrl,
  webhookUrls,
} from './tenant-object.ts'
export type { TenantManifest, TenantSource } from './tenant-source.ts'
export type { LiveTenant } from './tenant-store.ts'
export {
  findLiveTenant,
  findWriterFence,
  isKindLimited,
  listLiveTenants,
  lockLiveTenant,
} from './tenant-store.ts'
export {
  findTenantHead,
  listTenantHeads,
  listTenantsOfKey,
  listUnreadyTenants,
  readTenantSheet,
  type TenantHead,
} from './tenant-views.ts'
