import { isDeepStrictEqual } from 'node:util'
import type { Occurrence } from '#internal/kube/index.ts'
import { tenantApiVersion } from '../model.ts'
import type { ShownRecordStore } from '../record-stores.ts'
import { generatedNamesOf, secretNamesOf } from '../secret-manifest.ts'
import type { TenantStatus } from '../status-schemas.ts'
import { type TenantObject, webhookUrls } from '../tenant-object.ts'
import type { TenantSource } from '../tenant-source.ts'
import { type Complaint, mergeConditions, type WantedCondition, weakSecretReason } from './conditions.ts'
import type { TenantFacts } from './gather-tenant.ts'
import type { TenantPlan } from './plan-tenant.ts'

/** Contains no value of a Secret. Pure. */
export function statusOf(
  object: TenantObject,
  {
    facts,
    plan,
    recordStore,
    publicUrl,
  }: {
    readonly facts: TenantFacts
    readonly plan: Pick<TenantPlan, 'tenantId' | 'row' | 'conditions'>
    readonly recordStore: ShownRecordStore | undefined
    /** Prefix of `/v1/t/…`; if it is undefined, the URLs are paths. */
    readonly publicUrl: string | undefined
  },
): TenantStatus {
  const observedGeneration = object.metadata.generation ?? 0
  return {
    observedGeneration,
    tenantId: plan.tenantId,
    conditions: plan.conditions.map((condition) => ({ ...condition, observedGeneration })),
    urls: [...webhookUrls(plan.row.slug, facts.manifest.spec, publicUrl, (name) => namesOf(facts, name))],
    secrets: secretsOf(facts),
    ...(recordStore && { records: recordStore }),
  }
}

function namesOf({ declared }: TenantFacts, name: string): readonly string[] {
  const known = declared?.get(name)
  return known ? [known.name, ...known.aliases] : []
}

/** `Ready` is False, and all other fields stay unchanged. Pure. */
export function refusedStatus(
  object: TenantObject,
  { reason, message }: Complaint,
  nowMs: number,
): TenantStatus {
  return statusWith(object, [{ type: 'Ready', status: 'False', reason, message }], nowMs)
}

/** Returns the status with the changed conditions. All other fields stay unchanged. Pure. */
export function statusWith(
  object: TenantObject,
  changed: readonly WantedCondition[],
  nowMs: number,
): TenantStatus {
  const before = object.status ?? {}
  const observedGeneration = object.metadata.generation ?? 0
  const merged = mergeConditions(before.conditions ?? [], changed, nowMs)
  const types = new Set<string>(changed.map(({ type }) => type))
  const others = (before.conditions ?? []).filter(({ type }) => !types.has(type))
  const conditions = [...merged.map((condition) => ({ ...condition, observedGeneration })), ...others]
  return { ...before, observedGeneration, conditions }
}

function secretsOf({ manifest, secrets }: TenantFacts): NonNullable<TenantStatus['secrets']> {
  const generated = generatedNamesOf(manifest)
  return secretNamesOf(manifest).map((name) => {
    const read = secrets.get(name)
    return {
      name,
      ...(read?.kind === 'found' && { version: read.secret.version }),
      ...(generated.has(name) && { generated: true }),
    }
  })
}

/** Compares two statuses, except for the order of keyed lists and the conditions that other controllers wrote. Pure. */
export function sameStatus(object: TenantObject, next: TenantStatus): boolean {
  return isDeepStrictEqual(comparable(object.status ?? {}, next), comparable(next, next))
}

function comparable(status: TenantStatus, next: TenantStatus) {
  const own = new Set(next.conditions?.map(({ type }) => type))
  return {
    observedGeneration: status.observedGeneration,
    tenantId: status.tenantId,
    conditions: keyed(
      status.conditions?.filter(({ type }) => own.has(type)),
      ({ type }) => type,
    ),
    urls: keyed(status.urls, ({ provider }) => provider),
    secrets: keyed(status.secrets, ({ name }) => name),
    records: status.records,
  }
}

function keyed<T>(list: readonly T[] | undefined, keyOf: (entry: T) => string): Record<string, T> {
  return Object.fromEntries((list ?? []).map((entry) => [keyOf(entry), entry]))
}

/** Records the events of changed conditions. Returns whether it wrote. Idempotent. @throws when the write fails */
export async function writeStatus(
  { source, isHeld }: { readonly source: TenantSource; readonly isHeld: () => boolean },
  object: TenantObject,
  status: TenantStatus,
): Promise<boolean> {
  if (sameStatus(object, status) || !isHeld()) return false
  if (!(await source.applyStatus(object, status))) return false
  for (const event of conditionEvents(object, status)) source.record(event)
  return true
}

export function occurrence(
  { metadata }: TenantObject,
  event: Pick<Occurrence, 'type' | 'reason' | 'action' | 'note'>,
): Occurrence {
  const { namespace, name, uid } = metadata
  const regarding = {
    apiVersion: tenantApiVersion,
    kind: 'Tenant',
    name,
    ...(namespace !== undefined && { namespace }),
    ...(uid !== undefined && { uid }),
  }
  return { regarding, ...event }
}

/** Reasons that need no intervention, so their events have the type Normal. */
const deletionContinues: ReadonlySet<string> = new Set(['GracePeriod', 'RemovingData', 'OtherFinalizers'])

/**
 * Returns the events of changed conditions: one for each condition that became False or is False for a new reason, and one for `Ready` when
 * it becomes True again. Changes of the wallet rollout are choices, so their events have the type Normal. Pure.
 */
export function conditionEvents(object: TenantObject, next: TenantStatus): Occurrence[] {
  const before = new Map(object.status?.conditions?.map((condition) => [condition.type, condition]))
  return (next.conditions ?? []).flatMap(({ type, status, reason, message }) => {
    const known = before.get(type)
    if (known?.status === status && known.reason === reason) return []
    const event = { reason, action: 'Reconcile', note: `${type}: ${message}` }
    if (type === 'DeletionWaiting') {
      const isWarning = !deletionContinues.has(reason)
      return [occurrence(object, { type: isWarning ? 'Warning' : 'Normal', ...event, action: 'Delete' })]
    }
    if (type === 'WalletEnabled')
      return known === undefined ? [] : [occurrence(object, { type: 'Normal', ...event })]
    if (status === 'False') {
      // True if `Ready` is False because of another condition with the same reason, which already causes an event.
      const isRepeated = next.conditions?.some((other) => other.type !== 'Ready' && other.reason === reason)
      return type === 'Ready' && isRepeated ? [] : [occurrence(object, { type: 'Warning', ...event })]
    }
    if (reason === weakSecretReason) return [occurrence(object, { type: 'Warning', ...event })]
    // A new tenant that becomes Ready immediately needs no event.
    return type === 'Ready' && known !== undefined ? [occurrence(object, { type: 'Normal', ...event })] : []
  })
}
