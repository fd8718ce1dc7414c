import { isDeepStrictEqual } from 'node:util'
import {
  type Condition as KubeCondition,
  mergeConditions,
  type WantedCondition,
} from '#internal/kube/index.ts'
import type { TenantStatus } from '../crd/status.ts'
import type { Condition } from '../reconcile/conditions.ts'
import type { TenantFacts } from '../reconcile/facts.ts'
import type { TenantPlan } from '../reconcile/plan.ts'
import { generatedNamesOf, secretNamesOf } from '../secret-names.ts'
import { webhookUrls } from '../webhook-urls.ts'
import type { TenantObject } from './tenant-object.ts'

/** What a status is made of. */
export interface StatusFacts {
  readonly facts: TenantFacts
  readonly plan: Pick<TenantPlan, 'tenantId' | 'row' | 'conditions'>
  /** What stands before `/v1/t/…`; undefined: the path alone is told. */
  readonly publicUrl: string | undefined
}

/** The status of a tenant that was reconciled. No value of a Secret gets in here. Pure. */
export function statusOf(object: TenantObject, { facts, plan, publicUrl }: StatusFacts): TenantStatus {
  const generation = object.metadata.generation ?? 0
  return {
    observedGeneration: generation,
    tenantId: plan.tenantId,
    conditions: plan.conditions.map((condition) => shown(condition, generation)),
    urls: [...webhookUrls(plan.row.slug, facts.manifest.spec, publicUrl)],
    secrets: secretsOf(facts),
  }
}

/** The status of a Tenant that cannot be reconciled as it stands: all else stays as it was. Pure. */
export function refusedStatus(
  object: TenantObject,
  { reason, message }: { readonly reason: string; readonly message: string },
  nowMs: number,
): TenantStatus {
  return statusWith(object, [{ type: 'Ready', status: 'False', reason, message }], nowMs)
}

/** The status of a Tenant with these conditions changed or added; all else stays as it was. Pure. */
export function statusWith(
  object: TenantObject,
  changed: readonly WantedCondition[],
  nowMs: number,
): TenantStatus {
  const before = object.status ?? {}
  const observedGeneration = object.metadata.generation ?? 0
  const known: KubeCondition[] = (before.conditions ?? []).map((condition) => ({
    ...condition,
    status: condition.status as KubeCondition['status'],
    observedGeneration: condition.observedGeneration ?? 0,
  }))
  const merged = mergeConditions(known, changed, { nowMs, observedGeneration })
  const types = new Set<string>(changed.map(({ type }) => type))
  const others = (before.conditions ?? []).filter(({ type }) => !types.has(type))
  return { ...before, observedGeneration, conditions: [...merged, ...others] }
}

/** Whether writing `next` would change nothing: lists are keyed, so their order says nothing, and others may add conditions. */
export function sameStatus(object: TenantObject, next: TenantStatus): boolean {
  return isDeepStrictEqual(comparable(object.status ?? {}, next), comparable(next, next))
}

function comparable(status: TenantStatus, next: TenantStatus) {
  const ours = new Set(next.conditions?.map(({ type }) => type))
  return {
    observedGeneration: status.observedGeneration,
    tenantId: status.tenantId,
    conditions: keyed(
      status.conditions?.filter(({ type }) => ours.has(type)),
      ({ type }) => type,
    ),
    urls: keyed(status.urls, ({ provider }) => provider),
    secrets: keyed(status.secrets, ({ name }) => name),
  }
}

function keyed<T>(list: readonly T[] | undefined, keyOf: (entry: T) => string): Record<string, T> {
  return Object.fromEntries((list ?? []).map((entry) => [keyOf(entry), entry]))
}

/** Whole seconds, as the API server's own clients write them. */
function shown({ lastTransitionTime, ...condition }: Condition, observedGeneration: number) {
  const { type, status, reason, message } = condition
  const since = lastTransitionTime.replace(/\.\d+Z$/, 'Z')
  return { type, status, reason, message, lastTransitionTime: since, observedGeneration }
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
