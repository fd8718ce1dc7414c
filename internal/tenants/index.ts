export { directoryChannel, tellDirectories } from './channel.ts'
export type { CrdFile } from './crd/files.ts'
export { crdFiles } from './crd/files.ts'
export { adoptAnnotation } from './crd/platform-policy.ts'
export { TenantStatus } from './crd/status.ts'
export { tenantResource } from './crd/tenant-crd.ts'
export type { Directory, DirectoryOptions } from './directory.ts'
export { createDirectory } from './directory.ts'
export type {
  DirectoryCallback,
  DirectoryKey,
  DirectoryProvider,
  DirectoryTenant,
  FoundKey,
} from './directory-index.ts'
export { parseDurationMs } from './duration.ts'
export type { FolderSourceOptions } from './folder/folder-source.ts'
export { createFolderSource } from './folder/folder-source.ts'
export { forgetAudit, forgetDeletedTenants, forgetSlugReservations } from './forget.ts'
export type { KeyRing, Opened, ParsedKeyRing, Sealed, SealedPlace } from './key-ring.ts'
export { parseKeyRing } from './key-ring.ts'
export type { GateOpening, UnfitRing } from './key-ring-gate.ts'
export { KeyRingGate } from './key-ring-gate.ts'
export type { TenantLog } from './log.ts'
export type { SecretManifest, SecretOwner } from './manifest.ts'
export type { ApiKeyScope, LimitName, Limits, ProviderName, RecordRules, TenantSpec } from './model.ts'
export {
  apiKeyScopes,
  dnsLabel,
  limitAmountMax,
  limitNames,
  providerAliases,
  providerNames,
  Tenant,
  tenantApiVersion,
} from './model.ts'
export type { Problem } from './model-rules.ts'
export type { OpenedSecrets, SecretOpenerOptions, UnreadableSecrets } from './open-secrets.ts'
export { callbackField, openTenantSecrets, providerField, SecretOpener } from './open-secrets.ts'
export { type ClusterView, type ClusterViewOptions, startClusterView } from './operator/cluster-view.ts'
export { type LeadingOptions, leadTenants } from './operator/lead-tenants.ts'
export { fenceName, type OperatorParts } from './operator/tenant-context.ts'
export {
  resumeCallbackAnnotation,
  type TenantObject,
  tenantFinalizer,
  tenantObjects,
} from './operator/tenant-object.ts'
export {
  type ClusterSecrets,
  createClusterSecrets,
  grantCommand,
  secretsRole,
} from './operator/tenant-secrets.ts'
export type { ParsedTenant } from './parse.ts'
export { neutralProviderName, parseTenant } from './parse.ts'
export type { Applied, ApplyContext } from './reconcile/apply.ts'
export { applyPlan, purgeTenant, removeTenant } from './reconcile/apply.ts'
export type { Condition, ConditionType } from './reconcile/conditions.ts'
export { conditionTypes } from './reconcile/conditions.ts'
export type { PassReport, TenantController, TenantControllerOptions } from './reconcile/controller.ts'
export { createTenantController } from './reconcile/controller.ts'
export type { TenantFacts } from './reconcile/facts.ts'
export type { GatherSources } from './reconcile/gather.ts'
export { gatherTenant } from './reconcile/gather.ts'
export type { TenantPlan } from './reconcile/plan.ts'
export { planTenant } from './reconcile/plan.ts'
export { hashApiKey } from './reconcile/plan-keys.ts'
export type { RandomBytes } from './reconcile/plan-secrets.ts'
export type { WriterFence } from './reconcile/store.ts'
export type { RetentionDays } from './retention.ts'
export { retentionOf } from './retention.ts'
export type {
  GeneratedSecret,
  SecretRead,
  SecretSource,
  SecretWritten,
  SourceProblem,
  SourceState,
  TenantManifest,
  TenantSource,
} from './source.ts'
export type { LiveTenant } from './store.ts'
export { findLiveTenantId, findWriterFence, listLiveTenants } from './store.ts'
export { tenantIdOfUid } from './tenant-id.ts'
export { type WebhookUrl, webhookUrls } from './webhook-urls.ts'
