import {
  callbackField,
  type DirectoryTenant,
  type KeyRing,
  openTenantSecrets,
} from '#internal/tenants/index.ts'
import { bodyKeptBytesMax, type Delivery } from './delivery.ts'
import { checkSignature, type Signature } from './signature.ts'

/** What tells whose a delivery is. */
export interface Tenants {
  /** A tenant in force. */
  readonly findTenant: (id: string) => DirectoryTenant | undefined
  readonly keyRing: KeyRing
}

/** A received call. */
export interface ReceivedCall {
  readonly path: string
  readonly headers: Headers
  readonly body: Uint8Array
  readonly nowMs: number
}

/** A delivery as far as its call alone tells. */
export type ReadCall = Omit<Delivery, 'number' | 'attempt' | 'status'>

/** Longest text taken from a header or field that is shown in one line. */
const fieldCharsMax = 128

/** Reads a call of any shape and checks its signature by the live secrets of the tenant that the body names. Never fails. */
export function readCall(call: ReceivedCall, tenants: Tenants): ReadCall {
  const { path, headers, body, nowMs } = call
  const event = parseObject(body)
  const tenantId = field(event, 'tenantId')
  const tenant = tenants.findTenant(tenantId)
  return {
    receivedAtMs: nowMs,
    path,
    webhookId: (headers.get('webhook-id') ?? '').slice(0, fieldCharsMax),
    tenant: tenant === undefined ? '' : (tenant.slug ?? tenant.name),
    provider: field(event, 'provider'),
    type: field(event, 'type'),
    eventId: field(event, 'id'),
    signature: checkOf(call, tenant, tenants.keyRing),
    headers: [...headers],
    bodyBytes: body.byteLength,
    // A cut piece of a longer text would keep the whole in memory: only the kept bytes are decoded. `stream` leaves out half a
    // character at the cut.
    body: new TextDecoder().decode(body.subarray(0, bodyKeptBytesMax), { stream: true }),
    isJson: event !== undefined,
  }
}

function checkOf(call: ReceivedCall, tenant: DirectoryTenant | undefined, keyRing: KeyRing): Signature {
  if (tenant === undefined) return { kind: 'bad', reason: 'its tenantId is no tenant in force' }
  const { values: secrets, unreadableKeyIds } = openTenantSecrets(keyRing, tenant, callbackField)
  if (secrets.length === 0)
    return {
      kind: 'bad',
      reason:
        unreadableKeyIds.length > 0
          ? 'the tenant’s secrets cannot be opened'
          : 'the tenant has no signing secret',
    }
  return checkSignature({ ...call, secrets })
}

/** An object's members, or undefined for anything that is no JSON object. */
function parseObject(body: Uint8Array): ReadonlyMap<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(new TextDecoder('utf-8', { fatal: true }).decode(body))
    return typeof value === 'object' && value !== null ? new Map(Object.entries(value)) : undefined
  } catch {
    return undefined
  }
}

function field(event: ReadonlyMap<string, unknown> | undefined, name: string): string {
  const value = event?.get(name)
  return typeof value === 'string' ? value.slice(0, fieldCharsMax) : ''
}
