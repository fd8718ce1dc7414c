import { parseTenantId, type TenantId } from '#internal/base/index.ts'
import { type ObjectPlace, objectKey, type WorkOutcome } from '#internal/kube/index.ts'
import { findRecordStore } from '../record-stores.ts'
import {
  adoptAnnotation,
  parseTenantObject,
  resumeCallbackAnnotation,
  slugOf,
  type TenantObject,
} from '../tenant-object.ts'
import {
  type SecretRead,
  type TenantManifest,
  type TenantSecrets,
  tooManyNamespaces,
} from '../tenant-source.ts'
import { findTenantIdOfUid } from '../tenant-store.ts'
import { type Applied, adoptTenant, applyPlan } from './apply-plan.ts'
import type { Complaint } from './conditions.ts'
import { expectMine, notifyChanged, type ReconcileContext } from './context.ts'
import { finishDeletion, removeNamesake, removeVanished } from './delete-tenant.ts'
import { gatherTenant, type ResourceName, type TenantFacts } from './gather-tenant.ts'
import { planTenant, type TenantPlan } from './plan-tenant.ts'
import { occurrence, refusedStatus, statusOf, writeStatus } from './write-status.ts'

/** Maximum number of attempts to plan and apply if writes conflict. Each attempt gathers the facts again. */
const conflictsMax = 3
/** Delay before a retry if the Tenant has changed, in case the event of that change is missed. */
const behindAgainMs = 1_000
/** Delay before the next check of a missing permission, because no event reports that it was granted. */
const forbiddenAgainMs = 15_000
const waitingAgainMs = 30_000
const resyncJitter = 0.2
/** Maximum number of repeated plans per attempt. Each repetition leaves out one more Secret that cannot be written. */
const replansMax = 32

/**
 * Reconciles one Tenant: gathers facts, decides a plan by pure policies, applies the plan, then writes status and events. Idempotent:
 * writes nothing if nothing has changed. `resyncMs` is the maximum delay until the next run.
 * @throws when a store or the source is unavailable; the Tenant's status then contains the reason
 */
export async function reconcileTenant(
  context: ReconcileContext,
  place: ObjectPlace,
  resyncMs: number,
): Promise<WorkOutcome> {
  const seen = context.source.tenant(place)
  if (seen === undefined) return await removeVanished(context, place)
  if (seen.metadata.deletionTimestamp !== undefined) return await finishDeletion(context, seen)
  try {
    return again(await reconcilePresent(context, seen), resyncMs)
  } catch (error) {
    await showRetrying(context, seen)
    throw error
  }
}

/** Returns the delay until the next run; undefined for the resync interval. */
async function reconcilePresent(context: ReconcileContext, seen: TenantObject): Promise<number | undefined> {
  const parsed = parseTenantObject(seen)
  if (parsed.kind === 'invalid') return await refuse(context, seen, { reason: 'SpecInvalid', ...parsed })
  // The finalizer is added before the first row is written, so that no deletion is missed.
  const object = context.isHeld() ? await context.source.hold(seen) : undefined
  if (object === undefined) return behindAgainMs
  await removeNamesake(context, object)
  const refusal = await adoptIfAsked(context, object, parsed.manifest)
  if (refusal !== undefined) return await refuse(context, object, refusal)
  return await bringInForce(context, object, parsed.manifest)
}

function again(ms: number | undefined, resyncMs: number): WorkOutcome {
  return { kind: 'again', afterMs: (ms ?? resyncMs) * (1 - resyncJitter * Math.random()) }
}

const retrying = {
  reason: 'Retrying',
  message:
    'The reconciliation failed and will be retried; the operator log names the unavailable dependency.',
}

/** Writes a status that announces a retry. Keeps a status of the current generation, since it is still correct. Ignores write errors. */
async function showRetrying(context: ReconcileContext, object: TenantObject): Promise<void> {
  if (object.status?.observedGeneration === object.metadata.generation) return
  const status = refusedStatus(object, retrying, context.clock.now())
  await writeStatus(context, object, status).catch(() => false)
}

async function refuse(
  context: ReconcileContext,
  object: TenantObject,
  refusal: Complaint,
): Promise<undefined> {
  await writeStatus(context, object, refusedStatus(object, refusal, context.clock.now()))
}

/** Adopts the data that the annotation names, before this Tenant gets an id. Returns a refusal if that is impossible. Idempotent. */
async function adoptIfAsked(
  context: ReconcileContext,
  object: TenantObject,
  { uid, namespace, name }: TenantManifest,
): Promise<Complaint | undefined> {
  const asked = object.metadata.annotations?.[adoptAnnotation]
  if (asked === undefined) return undefined
  const refused = (message: string) => ({ reason: 'AdoptRefused', message })
  const id = tenantIdOf(asked)
  if (id === undefined) return refused(`${adoptAnnotation} must be a tenant's id, as in status.tenantId`)
  const own = await findTenantIdOfUid(context.pool, uid)
  if (own === id) return undefined
  if (own !== undefined) {
    return refused(
      `this Tenant already has data, as ${own}: to adopt other data, delete the Tenant and create it again with the annotation`,
    )
  }
  const applied = await adoptTenant(context, { id, uid, namespace, name }, context.clock.now())
  if (applied.kind === 'conflict')
    return refused(`no deleted tenant ${id} has retained data: correct or remove ${adoptAnnotation}`)
  expectMine(applied)
  context.log.info({ tenant: `${namespace}/${name}`, tenantId: id }, 'tenant adopted retained data')
  return undefined
}

function tenantIdOf(text: string): TenantId | undefined {
  try {
    return parseTenantId(text)
  } catch {
    return undefined
  }
}

async function bringInForce(
  context: ReconcileContext,
  object: TenantObject,
  manifest: TenantManifest,
): Promise<number | undefined> {
  const startedMs = performance.now()
  const secrets = context.source.secretsOf(manifest, context.isHeld)
  const { facts, plan, applied } = await applyWithConflicts(context, manifest, secrets)
  expectMine(applied)
  if (applied.kind === 'applied') {
    context.counts.applied += 1
    await notifyChanged(context)
  }
  const relabelled = await secrets.relabel()
  const after = await factsAfter(facts, plan, secrets)
  const recordStore = await findRecordStore(context.pool, plan.tenantId)
  const status = statusOf(object, { facts: after, plan, recordStore, publicUrl: context.publicUrl })
  recordGenerated(context, object, plan)
  const wrote = await writeStatus(context, object, status)
  await resumeIfAsked(context, object, facts)
  if (applied.kind !== 'unchanged' || wrote || plan.generate.length + relabelled.length > 0)
    logReconciled(context, plan, { applied: applied.kind, durationMs: performance.now() - startedMs })
  return nextTurnMs(plan)
}

interface Reconciled {
  readonly facts: TenantFacts
  readonly plan: TenantPlan
  readonly applied: Applied
}

/** Returns the last conflict after `conflictsMax` attempts. */
async function applyWithConflicts(
  context: ReconcileContext,
  manifest: TenantManifest,
  secrets: TenantSecrets,
): Promise<Reconciled> {
  let done = await planAndApply(context, manifest, secrets)
  for (let conflicts = 1; done.applied.kind === 'conflict' && conflicts < conflictsMax; conflicts += 1)
    done = await planAndApply(context, manifest, secrets)
  return done
}

async function planAndApply(
  context: ReconcileContext,
  manifest: TenantManifest,
  secrets: TenantSecrets,
): Promise<Reconciled> {
  const { random, clock, source } = context
  let facts = await gatherTenant({ ...context, secrets }, manifest)
  if (facts.stored?.slug !== manifest.spec.slug) {
    const claimants = source.claimants(manifest.spec.slug)
    const createdAtMs = manifest.createdAtMs ?? facts.stored?.resourceCreatedAtMs
    const olderClaimant = facts.slug.olderClaimant ?? olderAmong(claimants, { ...manifest, createdAtMs })
    facts = { ...facts, slug: { ...facts.slug, olderClaimant } }
  }
  for (let turn = 0; ; turn += 1) {
    const nowMs = clock.now()
    const plan = planTenant(facts, nowMs, random)
    const applied = await applyPlan(context, secrets, plan, nowMs)
    if (applied.kind !== 'refused' || turn >= replansMax) return { facts, plan, applied }
    const { secret, reason, message } = applied
    const unwritable: SecretRead = { kind: 'unreadable', reason, message }
    facts = { ...facts, secrets: new Map([...facts.secrets, [secret, unwritable]]) }
  }
}

/** Returns the oldest claimant of the slug if it is older than this Tenant; undefined otherwise. At equal age, the uid decides. Pure. */
export function olderAmong(
  claimants: Iterable<TenantObject>,
  { uid, spec, createdAtMs = Number.POSITIVE_INFINITY }: TenantManifest,
): ResourceName | undefined {
  let oldest: TenantManifest | undefined
  for (const object of claimants) {
    if (slugOf(object) !== spec.slug || object.metadata.uid === uid) continue
    if (object.metadata.deletionTimestamp !== undefined) continue
    const parsed = parseTenantObject(object)
    if (parsed.kind === 'ok' && isOlder(parsed.manifest, oldest ?? { uid, createdAtMs }))
      oldest = parsed.manifest
  }
  return oldest && { namespace: oldest.namespace, name: oldest.name }
}

function isOlder(one: Pick<TenantManifest, 'uid' | 'createdAtMs'>, other: typeof one): boolean {
  const oneMs = one.createdAtMs ?? Number.POSITIVE_INFINITY
  const otherMs = other.createdAtMs ?? Number.POSITIVE_INFINITY
  return oneMs === otherMs ? one.uid < other.uid : oneMs < otherMs
}

async function factsAfter(
  facts: TenantFacts,
  plan: TenantPlan,
  secrets: TenantSecrets,
): Promise<TenantFacts> {
  if (plan.generate.length === 0) return facts
  const { namespace } = facts.manifest
  const written = await Promise.all(
    plan.generate.map(async ({ name }) => [name, await secrets.readSecret(namespace, name)] as const),
  )
  return { ...facts, secrets: new Map([...facts.secrets, ...written]) }
}

const generationNotes = {
  missing: ['SecretGenerated', 'was generated'],
  rotation: ['SecretRotated', 'has a new value; the previous one remains valid for 24 hours'],
  edited: [
    'SecretRepaired',
    'was edited and has been restored: to rotate it, set the annotation latchkey.dev/rotate on it',
  ],
  previousEnded: ['RotationEnded', 'no longer has the value from before its rotation'],
} as const

function recordGenerated({ source }: ReconcileContext, object: TenantObject, { generate }: TenantPlan): void {
  // The first Secrets of a new tenant cause no events, because the tenant's status lists them.
  const news = generate.filter(({ cause }) => cause !== 'missing' || object.status?.secrets !== undefined)
  for (const { name, cause } of news) {
    const [reason, text] = generationNotes[cause]
    const type = cause === 'edited' ? 'Warning' : 'Normal'
    source.record(occurrence(object, { type, reason, action: 'Generate', note: `Secret ${name} ${text}` }))
  }
}

/** Resumes a suspended callback if the annotation requests it or, in a folder of manifests, if its URL changed. */
async function resumeIfAsked(
  context: ReconcileContext,
  object: TenantObject,
  { tenantId, manifest, stored }: TenantFacts,
): Promise<void> {
  const { source, resumeCallback } = context
  const isAsked = object.metadata.annotations?.[resumeCallbackAnnotation] !== undefined
  const hasMoved = stored?.spec !== undefined && stored.spec.callback?.url !== manifest.spec.callback?.url
  if (!isAsked && !(hasMoved && source.resumesMovedCallback)) return
  if (!context.isHeld()) return
  await resumeCallback?.(tenantId)
  if (!isAsked) return
  await source.removeAnnotation(object, resumeCallbackAnnotation)
  const note = 'Deliveries to the callback are resumed'
  source.record(occurrence(object, { type: 'Normal', reason: 'CallbackResumed', action: 'Resume', note }))
}

function logReconciled(context: ReconcileContext, plan: TenantPlan, outcome: object): void {
  const [ready] = plan.conditions
  const fields = {
    tenant: objectKey(plan.row),
    tenantId: plan.tenantId,
    change: plan.rowChange,
    ...outcome,
    ready: ready?.status,
    reason: ready?.reason,
    detail: ready?.message,
    warnings: plan.warnings,
  }
  if (ready?.status === 'True' || ready?.reason === 'Suspended') context.log.info(fields, 'tenant reconciled')
  else context.log.warn(fields, 'tenant reconciled, but part of its spec is not applied')
}

function nextTurnMs({ conditions }: TenantPlan): number | undefined {
  const reasons = new Set(conditions.map(({ reason }) => reason))
  if (reasons.has('Forbidden')) return forbiddenAgainMs
  const waits = [tooManyNamespaces, 'SlugTaken', 'SlugAwaited', 'SlugKept', 'ProviderUnknown']
  return waits.some((reason) => reasons.has(reason)) ? waitingAgainMs : undefined
}
