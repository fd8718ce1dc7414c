export { grantCommand, secretsRole } from './cluster/secrets.ts'
export type { ClusterSource, ClusterSourceOptions } from './cluster/source.ts'
export { startClusterSource } from './cluster/source.ts'
export type { Directory, DirectoryOptions } from './directory.ts'
export { createDirectory, directoryChannel, notifyDirectories } from './directory.ts'
export type {
  DirectoryCallback,
  DirectoryKey,
  DirectoryProvider,
  DirectoryTenant,
  FoundKey,
} from './directory-index.ts'
export type { SourceProblem } from './folder/parse.ts'
export type { FolderSource, FolderSourceOptions } from './folder/source.ts'
export { createFolderSource } from './folder/source.ts'
export type {
  KeyRing,
  Opened,
  OpenedSecrets,
  ParsedKeyRing,
  Sealed,
  SealedPlace,
  SecretOpenerOptions,
  UnreadableSecrets,
} from './key-ring.ts'
export { callbackField, openTenantSecrets, parseKeyRing, providerField, SecretOpener } from './key-ring.ts'
export type { GateOpening, UnfitRing } from './key-ring-gate.ts'
export { KeyRingGate } from './key-ring-gate.ts'
export type { TenantLog } from './log.ts'
export type {
  ApiKeyScope,
  LimitName,
  Limits,
  ProviderName,
  RecordRules,
  RetentionDays,
  TenantSpec,
  WebhookUrl,
} from './model.ts'
export {
  apiKeyScopes,
  dnsLabel,
  limitAmountMax,
  limitNames,
  providerAliases,
  providerNames,
  retentionOf,
  Tenant,
  tenantApiVersion,
  webhookUrls,
} from './model.ts'
export type { ParsedTenant, Problem } from './parse.ts'
export { neutralProviderName, parseDurationMs, parseTenant } from './parse.ts'
export type { TenantData } from './purge.ts'
export { forgetDeletedTenants, forgetSlugReservations } from './purge.ts'
export type { Condition, ConditionType } from './reconcile/conditions.ts'
export { conditionTypes } from './reconcile/conditions.ts'
export type { TenantParts } from './reconcile/context.ts'
export type { PassReport, TenantController, TenantControllerOptions } from './reconcile/controller.ts'
export { createTenantController, fenceName, leadTenants } from './reconcile/controller.ts'
export { hashApiKey } from './reconcile/plan-keys.ts'
export type { TenantManifest, TenantSource } from './source.ts'
export type { LiveTenant } from './store.ts'
export { findLiveTenant, findLiveTenantId, findWriterFence, listLiveTenants, lockLiveTenant } from './store.ts'
export {
  apiKeys,
  directoryVersion,
  slugReservations,
  tenantSecrets,
  tenants,
  writerFence,
} from './tables.ts'
export {
  resumeCallbackAnnotation,
  type TenantObject,
  tenantFinalizer,
  tenantIdOfUid,
  tenantObjects,
} from './tenant-object.ts'
export {
  findTenantHead,
  listTenantHeads,
  listTenantsOfKey,
  readTenantSheet,
  type TenantHead,
  type TenantKeyView,
  type TenantSecretView,
  type TenantSheet,
} from './tenant-views.ts'
