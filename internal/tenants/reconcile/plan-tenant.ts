import { isDeepStrictEqual } from 'node:util'
import type { TenantId } from '#internal/base/index.ts'
import { didYouMean } from '#internal/config/index.ts'
import { type CallbackRefusal, validateCallback } from '#internal/egress/index.ts'
import { notificationsUrlField } from '../key-ring.ts'
import type { TenantSpec } from '../model.ts'
import { providerAcceptance, stagedProvider } from '../provider-acceptance.ts'
import { neutralProviderName } from '../spec-providers.ts'
import type { tenants } from '../tables.ts'
import type { CallbackSuspension } from '../tenant-data.ts'
import type { GeneratedSecret } from '../tenant-source.ts'
import {
  type Complaint,
  type Condition,
  mergeConditions,
  messageCharactersMax,
  readyVerdict,
  type Verdict,
  verdict,
  weakSecretReason,
} from './conditions.ts'
import type { ResourceName, StoredKey, StoredSecret, TenantFacts } from './gather-tenant.ts'
import { type KeysPlan, planKeys } from './plan-keys.ts'
import { planSecrets, type RandomBytes, type SecretsPlan, type SecretToPut } from './plan-secrets.ts'

export type TenantRow = Omit<
  typeof tenants.$inferInsert,
  'spec' | 'slug' | 'conditions' | 'version' | 'createdAtMs' | 'updatedAtMs' | 'deletedAtMs'
> & { readonly spec: TenantSpec; readonly slug: string | null }

/** Contains secrets, so it must not be logged whole. */
export interface TenantPlan {
  readonly tenantId: TenantId
  /** Written before any row, so that no key is valid that its owner cannot read. */
  readonly generate: readonly GeneratedSecret[]
  readonly row: TenantRow
  readonly rowChange: 'none' | 'created' | 'changed' | 'restored'
  readonly keys: { readonly put: readonly StoredKey[]; readonly remove: readonly string[] }
  readonly secrets: {
    readonly put: readonly SecretToPut[]
    readonly remove: readonly Pick<StoredSecret, 'field' | 'ordinal'>[]
  }
  readonly conditions: readonly Condition[]
  readonly conditionsChanged: boolean
  readonly warnings: readonly string[]
}

/** Decides a tenant's next state by ordered policies. Pure: the same facts, time and random bytes produce the same plan. */
export function planTenant(facts: TenantFacts, nowMs: number, random: RandomBytes): TenantPlan {
  const slug = planSlug(facts, nowMs)
  const secrets = planSecrets(facts, nowMs, random)
  const keys = planKeys(facts, nowMs, random)
  const verdicts: Verdict[] = [
    slug.verdict,
    verdict('SecretsSynced', [...secrets.complaints, ...keys.secretComplaints], syncedOf(secrets.weak)),
    providersVerdict(facts),
    callbackVerdict(facts),
    ...notificationsVerdict(facts, secrets),
    walletVerdict(facts.manifest.spec),
    keysVerdict(facts, keys),
  ]
  verdicts.unshift(readyVerdict(verdicts, facts.manifest.spec.suspended))
  const previous = facts.stored?.conditions ?? []
  const conditions = mergeConditions(previous, verdicts, nowMs)
  const row = rowOf(facts, slug.slug, nowMs)
  return {
    tenantId: facts.tenantId,
    generate: [...secrets.generate, ...keys.generate],
    row,
    rowChange: changeOfRow(facts, row),
    keys: { put: keys.put, remove: keys.remove },
    secrets: { put: secrets.put, remove: secrets.remove },
    conditions,
    conditionsChanged: !isDeepStrictEqual(previous, conditions),
    warnings: [...secrets.warnings, ...keys.warnings],
  }
}

/** `SecretsSynced` stays True for weak secrets, because they are used; the message and an event ask the user to replace them. */
function syncedOf(weak: readonly string[]): Complaint {
  const message = 'All Secrets were read'
  if (weak.length === 0) return { reason: 'Synced', message }
  return {
    reason: weakSecretReason,
    message: `${message}; ${weak.join('; ')}`.slice(0, messageCharactersMax),
  }
}

/** Returns whether a plan changes what other processes read; false if only conditions change. */
export function changesTenant({ rowChange, keys, secrets }: TenantPlan): boolean {
  const amount = keys.put.length + keys.remove.length + secrets.put.length + secrets.remove.length
  return rowChange !== 'none' || amount > 0
}

function rowOf({ manifest, tenantId, stored }: TenantFacts, slug: string | null, nowMs: number): TenantRow {
  const { uid, namespace, name, spec } = manifest
  const resourceCreatedAtMs = manifest.createdAtMs ?? stored?.resourceCreatedAtMs ?? nowMs
  return { id: tenantId, uid, namespace, name, slug, suspended: spec.suspended, spec, resourceCreatedAtMs }
}

function changeOfRow({ stored }: TenantFacts, row: TenantRow): TenantPlan['rowChange'] {
  if (stored === undefined) return 'created'
  if (stored.deletedAtMs !== null) return 'restored'
  const same =
    stored.slug === row.slug &&
    stored.namespace === row.namespace &&
    stored.name === row.name &&
    stored.resourceCreatedAtMs === row.resourceCreatedAtMs &&
    isDeepStrictEqual(stored.spec, row.spec)
  return same ? 'none' : 'changed'
}

/** Checks that every enabled provider exists and is listed only once, and that the tenant accepts declarations that were not verified. */
function providersVerdict({ manifest, declared, providerNames = [] }: TenantFacts): Verdict {
  const { providers, walletRollout } = manifest.spec
  const seen = new Map<string, string>()
  const complaints = providers
    .filter(({ enabled }) => enabled)
    .flatMap((entry): Complaint[] => {
      const { name } = entry
      if (declared === undefined || neutralProviderName(name) !== undefined) return []
      const known = declared.get(name)
      if (known === undefined) {
        const meant = didYouMean(name, providerNames, name.length < 5 ? 1 : 2)
        const hint = meant === undefined ? '' : ` (did you mean ${meant}?)`
        const message = `there is no provider ${name}${hint} in force: its calls are 404 until a Provider of this name is in force, as its condition Ready says`
        return [{ reason: 'ProviderUnknown', message }]
      }
      const other = seen.get(known.name)
      seen.set(known.name, name)
      if (other !== undefined)
        return [
          {
            reason: 'ProviderRepeated',
            message: `${other} and ${name} are one provider: remove one of them`,
          },
        ]
      const acceptance = providerAcceptance({
        provider: known.name,
        entry,
        walletStage: walletRollout.stage,
        isUnverified: known.isUnverified,
      })
      if (acceptance.kind === 'accept') return []
      const message = `the declaration of ${name} was not compared with a call of the vendor: its calls are refused unless acceptUnverified is true`
      return [{ reason: 'ProviderUnverified', message }]
    })
  return verdict('ProvidersAccepted', complaints, { reason: 'Known', message: 'All providers are known' })
}

function keysVerdict(facts: TenantFacts, plan: KeysPlan): Verdict {
  const asked = facts.manifest.spec.apiKeys.length
  return verdict(
    'ApiKeysIssued',
    [...plan.keyComplaints, ...plan.secretComplaints],
    asked === 0
      ? { reason: 'NoneAsked', message: 'spec.apiKeys is empty: add an entry to call the record API' }
      : { reason: 'Issued', message: `Active API keys: ${asked}` },
  )
}

function walletVerdict({ providers, walletRollout }: TenantSpec): Verdict {
  const off = (reason: string, message: string): Verdict => {
    return { type: 'WalletEnabled', status: 'False', reason, message }
  }
  const acceptance = providerAcceptance({
    provider: stagedProvider,
    entry: providers.find(({ name }) => name === stagedProvider),
    walletStage: walletRollout.stage,
  })
  switch (acceptance.kind === 'accept' ? acceptance.state : acceptance.cause) {
    case 'not_configured':
      return off('NotConfigured', 'spec.providers does not list wallet')
    case 'disabled':
      return off('Disabled', 'The provider wallet has enabled: false')
    case 'stage_off':
      return off(
        'StageOff',
        'Wallet calls are refused: to start the rollout, set spec.walletRollout.stage to verify',
      )
    case 'verified':
      return off(
        'Verifying',
        'Wallet events are verified and stored, but not delivered: review them, then set spec.walletRollout.stage to enabled',
      )
    case 'accepted':
      return verdict('WalletEnabled', [], { reason: 'Reviewed', message: 'Wallet events are delivered' })
    case 'reserved':
    case 'unverified':
      throw new Error('the provider `wallet` is built in: it cannot be reserved or unverified')
  }
}

/** Does not resolve the host name: each delivery checks the resolved address by the same rules. */
function callbackVerdict({ manifest, callbackBounds, callbackSuspension }: TenantFacts): Verdict {
  if (manifest.spec.callback === undefined) return verdict('CallbackAllowed', [], noCallback)
  const { url, allowedCIDRs } = manifest.spec.callback
  const checked = validateCallback(url, { ...callbackBounds, allowedCIDRs })
  if (checked.kind === 'refused') {
    const complaint = {
      reason: refusalReasons[checked.cause],
      message: `spec.callback.url ${checked.message}`,
    }
    return verdict('CallbackAllowed', [complaint], callbackAccepted)
  }
  if (callbackSuspension) {
    const complaint = { reason: 'CallbackSuspended', message: suspensionMessage(callbackSuspension) }
    return verdict('CallbackAllowed', [complaint], callbackAccepted)
  }
  return verdict('CallbackAllowed', [], callbackAccepted)
}

/** A tenant without notifications has no such condition. A URL from a Secret is never quoted. */
function notificationsVerdict(facts: TenantFacts, secrets: SecretsPlan): Verdict[] {
  const { manifest, callbackBounds, notificationsSuspension } = facts
  const { notifications } = manifest.spec
  if (notifications === undefined) return []
  const of = (...complaints: readonly Complaint[]) => [
    verdict('NotificationsAllowed', complaints, callbackAccepted),
  ]
  const { url = urlInSecret(facts, secrets), allowedCIDRs } = notifications
  if (url === undefined)
    return of({
      reason: 'UrlMissing',
      message: 'spec.notifications.urlSecretRef names no Secret with a usable URL',
    })
  const checked = validateCallback(url, { ...callbackBounds, allowedCIDRs })
  if (checked.kind === 'refused')
    return of({
      reason: refusalReasons[checked.cause],
      message: `the URL of spec.notifications ${checked.message}`,
    })
  if (!notificationsSuspension) return of()
  const { cause, suspendedAtMs } = notificationsSuspension
  const message =
    `the receiver of notifications ${saidOf(cause)} at ${new Date(suspendedAtMs).toISOString()}; notifications wait: ` +
    'fix the receiver, then set the annotation latchkey.dev/resume-callback'
  return of({ reason: 'NotificationsSuspended', message })
}

/** Returns the URL of notifications from the planned secrets or, if the plan does not change it, from the stored secrets. */
function urlInSecret({ stored }: TenantFacts, { put, remove }: SecretsPlan): string | undefined {
  const planned = put.find(({ field }) => field === notificationsUrlField)
  if (planned || remove.some(({ field }) => field === notificationsUrlField)) return planned?.value
  return stored?.secrets.find(({ field }) => field === notificationsUrlField)?.value
}

function saidOf(cause: CallbackSuspension['cause']): string {
  return cause === 'gone' ? 'answered 410 Gone' : 'refused further deliveries (header webhook-delivery)'
}

function suspensionMessage({ cause, suspendedAtMs }: CallbackSuspension): string {
  return (
    `the callback ${saidOf(cause)} at ${new Date(suspendedAtMs).toISOString()}; its events are accepted and queued: ` +
    'fix the callback, then run latchkey tenants resume, or set the annotation latchkey.dev/resume-callback'
  )
}

const callbackAccepted = {
  reason: 'FormAccepted',
  message: 'The URL is valid; each delivery checks the address that it connects to',
}

const noCallback = {
  reason: 'NoCallback',
  message: 'spec.callback is not set: events wait until a subscription acknowledges them',
}

const refusalReasons: Readonly<Record<CallbackRefusal, string>> = {
  malformed: 'UrlRefused',
  too_long: 'UrlRefused',
  scheme: 'UrlRefused',
  credentials: 'UrlRefused',
  fragment: 'UrlRefused',
  port: 'PortRefused',
  port_not_listed: 'PortNotListed',
  http_not_listed: 'AddressNotListed',
  address: 'AddressNotAllowed',
}

interface SlugPlan {
  readonly slug: string | null
  readonly verdict: Verdict
}

/** Keeps a slug with its holder. Grants a free slug to the resource that it is reserved for, otherwise to the oldest claimant. Pure. */
function planSlug(facts: TenantFacts, nowMs: number): SlugPlan {
  const wanted = facts.manifest.spec.slug
  const held = facts.stored?.deletedAtMs === null ? facts.stored.slug : null
  if (held !== null && held !== wanted) {
    return denied(
      held,
      'SlugImmutable',
      `spec.slug is immutable and stays ${held}: set it back, or delete this Tenant and create another one`,
    )
  }
  if (held === null) {
    const { holder, reservation, olderClaimant } = facts.slug
    if (holder !== undefined && holder.id !== facts.tenantId) {
      return denied(
        null,
        'SlugTaken',
        `the slug ${wanted} belongs to ${shown(holder, facts)}: choose another spec.slug`,
      )
    }
    const kept = reservation !== undefined && reservation.untilMs > nowMs ? reservation : undefined
    if (kept !== undefined && !isSame(kept, facts.manifest)) {
      const until = new Date(kept.untilMs).toISOString()
      return denied(
        null,
        'SlugKept',
        `the slug ${wanted} is reserved for ${shown(kept, facts)} until ${until}: choose another slug`,
      )
    }
    // A reservation takes precedence over the age of claimants. Otherwise the resource with the reservation and the older claimant would
    // wait for each other.
    if (kept === undefined && olderClaimant !== undefined) {
      return denied(
        null,
        'SlugAwaited',
        `${shown(olderClaimant, facts)} is older and also requests the slug ${wanted}: choose another slug`,
      )
    }
  }
  return {
    slug: wanted,
    verdict: verdict('SlugReserved', [], {
      reason: 'Held',
      message: `The slug ${wanted} belongs to this tenant`,
    }),
  }
}

function denied(slug: string | null, reason: string, message: string): SlugPlan {
  return { slug, verdict: { type: 'SlugReserved', status: 'False', reason, message } }
}

/** Hides the name of a tenant of another namespace, which the reader of this Tenant may not be permitted to see. */
function shown({ namespace, name }: ResourceName, { manifest }: TenantFacts): string {
  return namespace === manifest.namespace ? `${namespace}/${name}` : 'a tenant of another namespace'
}

function isSame(one: ResourceName, other: ResourceName): boolean {
  return one.namespace === other.namespace && one.name === other.name
}
