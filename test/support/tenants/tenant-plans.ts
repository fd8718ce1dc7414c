import { parseTenant, type TenantManifest, type TenantSpec, tenantIdOfUid } from '#internal/tenants/index.ts'
import type { Condition, ConditionType } from '#internal/tenants/reconcile/conditions.ts'
import type { StoredSecret, StoredTenant, TenantFacts } from '#internal/tenants/reconcile/gather-tenant.ts'
import { planTenant, type TenantPlan } from '#internal/tenants/reconcile/plan-tenant.ts'
import type { SecretRead } from '#internal/tenants/tenant-source.ts'

/** Default time of a plan. */
export const planNow = Date.parse('2026-11-01T00:00:00Z')
/** Uid of the planned tenant. */
export const planUid = 'uid-acme'
const uid = planUid
const id = tenantIdOfUid(uid)
const random = (count: number) => new Uint8Array(count).fill(7)

/** Returns a signing secret of a callback, derived from the seed. */
export function whsec(seed: number): string {
  return `whsec_${Buffer.alloc(24, seed).toString('base64')}`
}

function specOf(fields: object): TenantSpec {
  const parsed = parseTenant({
    apiVersion: 'latchkey.dev/v1alpha1',
    kind: 'Tenant',
    metadata: { name: 'acme' },
    spec: { slug: 'acme', callback: { url: 'https://hooks.example/' }, ...fields },
  })
  if (parsed.kind === 'invalid') throw new Error(JSON.stringify(parsed.problems))
  return parsed.tenant.spec
}

/** Builds a Secret as read from its source. */
export function found(
  values: Record<string, string>,
  ownerUid?: string,
  annotations: Record<string, string> = {},
): SecretRead {
  const owner = ownerUid === undefined ? undefined : { uid: ownerUid, name: 'acme' }
  const secret = {
    namespace: 'shops',
    name: 'any',
    values: new Map(Object.entries(values)),
    version: 'v1',
    annotations,
    owner,
  }
  return { kind: 'found', secret }
}

/** Differences from the facts of an active tenant. */
export interface Case {
  readonly spec?: object
  readonly secrets?: Record<string, SecretRead>
  readonly stored?: Partial<StoredTenant>
  readonly slug?: Partial<TenantFacts['slug']>
  readonly keysOfOthers?: readonly string[]
  readonly callbackSuspension?: TenantFacts['callbackSuspension']
  readonly notificationsSuspension?: TenantFacts['notificationsSuspension']
}

const callbackSecret = found({ signingSecret: whsec(1) }, uid)
/** Builds the stored signing secret. */
export const storedCallback: StoredSecret = {
  field: 'callback',
  ordinal: 0,
  keyId: 'k1',
  value: whsec(1),
  createdAtMs: 5,
}

function factsOf({
  spec = {},
  secrets = {},
  stored,
  slug,
  keysOfOthers = [],
  callbackSuspension,
  notificationsSuspension,
}: Case): TenantFacts {
  const parsed = specOf(spec)
  const manifest: TenantManifest = { uid, namespace: 'shops', name: 'acme', createdAtMs: 1_000, spec: parsed }
  return {
    manifest,
    tenantId: id,
    stored: stored && {
      id,
      uid,
      namespace: 'shops',
      name: 'acme',
      slug: 'acme',
      spec: parsed,
      conditions: [],
      resourceCreatedAtMs: 1_000,
      deletedAtMs: null,
      keys: [],
      secrets: [storedCallback],
      ...stored,
    },
    slug: { holder: undefined, reservation: undefined, olderClaimant: undefined, ...slug },
    secrets: new Map(Object.entries({ 'acme-callback': callbackSecret, ...secrets })),
    keysOfOthers: new Set(keysOfOthers),
    currentKeyId: 'k1',
    callbackBounds: { cidrsMax: ['fd00::/8', '10.0.0.0/8'], ports: [9000] },
    callbackSuspension,
    notificationsSuspension,
  }
}

/** Returns the plan of a case. */
export function planOf(given: Case, at: number = planNow): TenantPlan {
  return planTenant(factsOf(given), at, random)
}

/** Returns the condition of this type. @throws if there is none */
export function conditionOf({ conditions }: TenantPlan, type: ConditionType): Condition {
  const one = conditions.find((candidate) => candidate.type === type)
  if (one === undefined) throw new Error(`no condition ${type}`)
  return one
}
