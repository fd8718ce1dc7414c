import { isDeepStrictEqual } from 'node:util'
import type { TenantId } from '#internal/base/index.ts'
import { type CallbackRefusal, validateCallback } from '#internal/egress/index.ts'
import type { TenantSpec } from '../model.ts'
import type { GeneratedSecret } from '../source.ts'
import {
  type Complaint,
  type Condition,
  dateConditions,
  messageCharactersMax,
  readyVerdict,
  type Verdict,
  verdict,
  weakSecretReason,
} from './conditions.ts'
import type { CallbackSuspension, StoredKey, StoredSecret, TenantFacts } from './facts.ts'
import { type KeysPlan, planKeys } from './plan-keys.ts'
import { planSecrets, type RandomBytes, type SecretToPut } from './plan-secrets.ts'
import { planSlug } from './plan-slug.ts'

/** The row of a live tenant. */
export interface TenantRow {
  readonly id: TenantId
  readonly uid: string
  readonly namespace: string
  readonly name: string
  readonly slug: string | null
  readonly suspended: boolean
  readonly spec: TenantSpec
  readonly resourceCreatedAtMs: number
}

/** Everything that has to change so that a tenant is as its manifest says. Holds secrets: never log it whole. */
export interface TenantPlan {
  readonly tenantId: TenantId
  /** Written to the source before anything is stored, so that a key is never in force without being readable. */
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

/** Decides a tenant's next state from the facts alone; the same facts, time and bytes give the same plan. */
export function planTenant(facts: TenantFacts, now: number, random: RandomBytes): TenantPlan {
  const slug = planSlug(facts, now)
  const secrets = planSecrets(facts, now, random)
  const keys = planKeys(facts, now, random)
  const verdicts: Verdict[] = [
    slug.verdict,
    verdict('SecretsSynced', [...secrets.complaints, ...keys.secretComplaints], syncedOf(secrets.weak)),
    callbackVerdict(facts),
    walletVerdict(facts.manifest.spec),
    keysVerdict(facts, keys),
  ]
  verdicts.unshift(readyVerdict(verdicts, facts.manifest.spec.suspended))
  const previous = facts.stored?.conditions ?? []
  const conditions = dateConditions(previous, verdicts, now)
  const row = rowOf(facts, slug.slug, now)
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

/** In force all the same, so that the condition stays True, as other operators have it: its reason and an event say what to change. */
function syncedOf(weak: readonly string[]): Complaint {
  const message = 'All Secrets were read'
  if (weak.length === 0) return { reason: 'Synced', message }
  return {
    reason: weakSecretReason,
    message: `${message}; ${weak.join('; ')}`.slice(0, messageCharactersMax),
  }
}

/** True when applying the plan would change what other processes see of the tenant, not only its conditions. */
export function changesTenant({ rowChange, keys, secrets }: TenantPlan): boolean {
  const amount = keys.put.length + keys.remove.length + secrets.put.length + secrets.remove.length
  return rowChange !== 'none' || amount > 0
}

function rowOf({ manifest, tenantId, stored }: TenantFacts, slug: string | null, now: number): TenantRow {
  const { uid, namespace, name, spec } = manifest
  const resourceCreatedAtMs = manifest.createdAtMs ?? stored?.resourceCreatedAtMs ?? now
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

function keysVerdict(facts: TenantFacts, plan: KeysPlan): Verdict {
  const asked = facts.manifest.spec.apiKeys.length
  return verdict(
    'ApiKeysIssued',
    [...plan.keyComplaints, ...plan.secretComplaints],
    asked === 0
      ? { reason: 'NoneAsked', message: 'spec.apiKeys is empty: add an entry to call the record API' }
      : { reason: 'Issued', message: `${asked} in force` },
  )
}

function walletVerdict({ providers, walletRollout }: TenantSpec): Verdict {
  const off = (reason: string, message: string): Verdict => {
    return { type: 'WalletEnabled', status: 'False', reason, message }
  }
  const wallet = providers.find(({ name }) => name === 'wallet')
  if (wallet === undefined) return off('NotConfigured', 'spec.providers has no wallet')
  if (!wallet.enabled) return off('Disabled', 'provider wallet has enabled: false')
  switch (walletRollout.stage) {
    case 'off':
      return off('StageOff', 'wallet calls are refused: set spec.walletRollout.stage to verify to begin')
    case 'verify':
      return off(
        'Verifying',
        'events are verified and stored, not delivered: review them, then set stage enabled',
      )
    case 'enabled':
      return verdict('WalletEnabled', [], { reason: 'Reviewed', message: 'wallet events are delivered' })
  }
}

/** What can be said without resolving a name: each delivery checks the address itself, by the same rules. */
function callbackVerdict({ manifest, callbackBounds, callbackSuspension }: TenantFacts): Verdict {
  const { url, allowedCIDRs } = manifest.spec.callback
  const judged = validateCallback(url, { ...callbackBounds, allowedCIDRs })
  if (judged.kind === 'refused') {
    const complaint = { reason: refusalReasons[judged.cause], message: `spec.callback.url ${judged.message}` }
    return verdict('CallbackAllowed', [complaint], callbackAccepted)
  }
  if (callbackSuspension) {
    const complaint = { reason: 'CallbackSuspended', message: suspensionMessage(callbackSuspension) }
    return verdict('CallbackAllowed', [complaint], callbackAccepted)
  }
  return verdict('CallbackAllowed', [], callbackAccepted)
}

function suspensionMessage({ cause, sinceMs }: CallbackSuspension): string {
  const said =
    cause === 'gone' ? 'answered 410 Gone' : 'asked for no more deliveries (header webhook-delivery)'
  return (
    `the callback ${said} at ${new Date(sinceMs).toISOString()}; its events are accepted and wait: ` +
    'when it is mended, set the annotation latchkey.dev/resume-callback'
  )
}

const callbackAccepted = { reason: 'FormAccepted', message: 'addresses are checked at each delivery' }

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
