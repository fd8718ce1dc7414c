import {
  expectOk,
  type KubeResult,
  type ObjectPlace,
  objectKey,
  type WorkOutcome,
} from '#internal/kube/index.ts'
import { type Applied, applyPlan } from '../reconcile/apply.ts'
import type { TenantFacts } from '../reconcile/facts.ts'
import { gatherTenant } from '../reconcile/gather.ts'
import { planTenant, type TenantPlan } from '../reconcile/plan.ts'
import { generatedNamesOf } from '../secret-names.ts'
import { type SecretRead, type TenantManifest, tooManyNamespaces } from '../source.ts'
import { adoptIfAsked } from './adopt-tenant.ts'
import { applyContextOf, expectMine, tellChanged } from './apply-context.ts'
import { occurrence } from './condition-events.ts'
import { finishDeletion, removeNamesake, removeVanished } from './delete-tenant.ts'
import { olderInCluster } from './older-claimant.ts'
import { refusedStatus, statusOf } from './status.ts'
import type { LeaderContext } from './tenant-context.ts'
import {
  parseTenantObject,
  resumeCallbackAnnotation,
  type TenantObject,
  tenantFinalizer,
  tenantObjects,
} from './tenant-object.ts'
import type { TenantSecrets } from './tenant-secrets.ts'
import { writeStatus } from './write-status.ts'

/** What stood in the way of a write has changed what is known: it is gathered anew at once, so many times. */
const conflictsMax = 3
/** A change that the cache has not heard of brings the Tenant back by itself; this is for one that was missed. */
const behindAgainMs = 1_000
/** No event tells that a permission was granted, that a watch may be opened again, or that a slug came free without a deletion. */
const forbiddenAgainMs = 15_000
const waitingAgainMs = 30_000
/** A backstop: whatever was missed is found by then. */
const resyncMs = 600_000
const resyncJitter = 0.2
/** A plan is made anew without a Secret that cannot be written: at most once for each. */
const replansMax = 32

/**
 * Brings one Tenant to where its resource says. Repeated at any time; a turn over what is unchanged writes nothing.
 * @throws when a store or the API server is away; the Tenant then says that it waits
 */
export async function reconcileTenant(context: LeaderContext, place: ObjectPlace): Promise<WorkOutcome> {
  const seen = context.view.tenant(place)
  if (seen === undefined) return await removeVanished(context, place)
  if (seen.metadata.deletionTimestamp !== undefined) return await finishDeletion(context, seen)
  try {
    return await reconcilePresent(context, seen)
  } catch (error) {
    await tellWaiting(context, seen)
    throw error
  }
}

async function reconcilePresent(context: LeaderContext, seen: TenantObject): Promise<WorkOutcome> {
  const parsed = parseTenantObject(seen)
  if (parsed.kind === 'invalid') return await refuse(context, seen, { reason: 'SpecInvalid', ...parsed })
  const held = await hold(context, seen)
  if (held.kind === 'gone') return again(behindAgainMs)
  const { object } = held
  await removeNamesake(context, object)
  const adopted = await adoptIfAsked(context, object, parsed.manifest)
  if (adopted.kind === 'refused') return await refuse(context, object, { reason: 'AdoptRefused', ...adopted })
  return await bringInForce(context, object, parsed.manifest)
}

const waiting = {
  reason: 'Retrying',
  message: 'It could not be brought in force and is tried again: the log of the operator says what is away',
}

/** Only of a generation that nothing was told of yet: what is in force stays so. A failure here says nothing new. */
async function tellWaiting(context: LeaderContext, object: TenantObject): Promise<void> {
  if (object.status?.observedGeneration === object.metadata.generation) return
  const status = refusedStatus(object, waiting, context.clock.now())
  await writeStatus(context, object, status).catch(() => false)
}

/** What kept a Tenant from being reconciled at all. */
interface Refusal {
  readonly reason: string
  readonly message: string
}

async function refuse(context: LeaderContext, object: TenantObject, refusal: Refusal): Promise<WorkOutcome> {
  const status = refusedStatus(object, refusal, context.clock.now())
  await writeStatus(context, object, status)
  return again(resyncMs)
}

type Held = { readonly kind: 'held'; readonly object: TenantObject } | { readonly kind: 'gone' }

/** The finalizer comes before the first row: from then on no deletion goes by unseen. */
async function hold(context: LeaderContext, object: TenantObject): Promise<Held> {
  const { finalizers = [], resourceVersion } = object.metadata
  if (finalizers.includes(tenantFinalizer)) return { kind: 'held', object }
  if (!context.leadership.isHeld()) return { kind: 'gone' }
  const patch = { metadata: { resourceVersion, finalizers: [...finalizers, tenantFinalizer] } }
  return heldOf(await context.client.mergePatch(tenantObjects, object.metadata, patch), object)
}

function heldOf(result: KubeResult<TenantObject>, before: TenantObject): Held {
  if (result.kind === 'ok') {
    const { resourceVersion, finalizers } = result.value.metadata
    const metadata = {
      ...before.metadata,
      ...(resourceVersion && { resourceVersion }),
      ...(finalizers && { finalizers }),
    }
    return { kind: 'held', object: { ...before, metadata } }
  }
  // Somebody was faster, or the cache is behind: what it will hear decides.
  if (result.kind === 'conflict' || result.kind === 'notFound') return { kind: 'gone' }
  expectOk('putting the finalizer on a Tenant', result)
  return { kind: 'gone' }
}

async function bringInForce(
  context: LeaderContext,
  object: TenantObject,
  manifest: TenantManifest,
): Promise<WorkOutcome> {
  const startedMs = performance.now()
  const { uid, namespace, name } = manifest
  const reader = { uid, namespace, name, generated: generatedNamesOf(manifest) }
  const secrets = context.secrets.of(reader, context.leadership.isHeld)
  const { facts, plan, applied } = await applyWithConflicts(context, manifest, secrets)
  expectMine(applied)
  if (applied.kind === 'applied') await tellChanged(context)
  const relabelled = await secrets.relabel()
  const after = await factsAfter(facts, plan, secrets)
  const status = statusOf(object, { facts: after, plan, publicUrl: context.publicUrl })
  tellGenerated(context, object, plan)
  const wrote = await writeStatus(context, object, status)
  await resumeIfAsked(context, object, plan)
  if (applied.kind !== 'unchanged' || wrote || plan.generate.length + relabelled.length > 0) {
    logReconciled(context, plan, { applied: applied.kind, durationMs: performance.now() - startedMs })
  }
  return nextTurn(plan)
}

/** Gives the last conflict when there was no end of them: then somebody is there who has to be told of. */
async function applyWithConflicts(
  context: LeaderContext,
  manifest: TenantManifest,
  secrets: TenantSecrets,
): Promise<Reconciled> {
  let done = await planAndApply(context, manifest, secrets)
  for (let conflicts = 1; done.applied.kind === 'conflict' && conflicts < conflictsMax; conflicts += 1)
    done = await planAndApply(context, manifest, secrets)
  return done
}

interface Reconciled {
  readonly facts: TenantFacts
  readonly plan: TenantPlan
  readonly applied: Applied
}

async function planAndApply(
  context: LeaderContext,
  manifest: TenantManifest,
  secrets: TenantSecrets,
): Promise<Reconciled> {
  const { pool, keyRing, random, callbackBounds, clock, view } = context
  let facts = await gatherTenant({ pool, keyRing, random, callbackBounds, secrets }, manifest)
  if (facts.stored?.slug !== manifest.spec.slug) {
    const olderClaimant =
      facts.slug.olderClaimant ?? olderInCluster(view.claimants(manifest.spec.slug), manifest)
    facts = { ...facts, slug: { ...facts.slug, olderClaimant } }
  }
  for (let turn = 0; ; turn += 1) {
    const now = clock.now()
    const plan = planTenant(facts, now, random)
    const applied = await applyPlan(applyContextOf(context, secrets), plan, now)
    if (applied.kind !== 'refused' || turn >= replansMax) return { facts, plan, applied }
    const { secret, reason, message } = applied
    const unwritable: SecretRead = { kind: 'unreadable', reason, message }
    facts = { ...facts, secrets: new Map([...facts.secrets, [secret, unwritable]]) }
  }
}

/** What was written since is told with its version. */
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
  rotation: ['SecretRotated', 'holds a new value; the one before works for another 24 hours'],
  edited: ['SecretRepaired', 'was edited by hand and repaired: to rotate it, set latchkey.dev/rotate on it'],
  previousEnded: ['RotationEnded', 'no longer holds the value before its rotation'],
} as const

function tellGenerated({ events }: LeaderContext, object: TenantObject, { generate }: TenantPlan): void {
  // A new tenant's Secrets are no news: its status names them.
  const news = generate.filter(({ cause }) => cause !== 'missing' || object.status?.secrets !== undefined)
  for (const { name, cause } of news) {
    const [reason, text] = generationNotes[cause]
    const type = cause === 'edited' ? 'Warning' : 'Normal'
    events.record(occurrence(object, { type, reason, action: 'Generate', note: `Secret ${name} ${text}` }))
  }
}

async function resumeIfAsked(context: LeaderContext, object: TenantObject, plan: TenantPlan): Promise<void> {
  if (object.metadata.annotations?.[resumeCallbackAnnotation] === undefined) return
  if (!context.leadership.isHeld()) return
  await context.resumeCallback(plan.tenantId)
  const patch = { metadata: { annotations: { [resumeCallbackAnnotation]: null } } }
  const result = await context.client.mergePatch(tenantObjects, object.metadata, patch)
  if (result.kind !== 'notFound') expectOk('taking an annotation from a Tenant', result)
  const note = 'Deliveries to the callback go on'
  context.events.record(
    occurrence(object, { type: 'Normal', reason: 'CallbackResumed', action: 'Resume', note }),
  )
}

function logReconciled(context: LeaderContext, plan: TenantPlan, outcome: object): void {
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
  else context.log.warn(fields, 'tenant is not wholly in force')
}

function nextTurn({ conditions }: TenantPlan): WorkOutcome {
  const reasons = new Set(conditions.map(({ reason }) => reason))
  if (reasons.has('Forbidden')) return again(forbiddenAgainMs)
  if ([tooManyNamespaces, 'SlugTaken', 'SlugAwaited', 'SlugKept'].some((reason) => reasons.has(reason)))
    return again(waitingAgainMs)
  return again(resyncMs)
}

function again(ms: number): WorkOutcome {
  return { kind: 'again', afterMs: ms * (1 - resyncJitter * Math.random()) }
}
