import type { Outbound } from '#internal/egress/index.ts'
import {
  callbackDestination,
  type DestinationName,
  type EventContent,
  notificationsDestination,
} from '#internal/events/index.ts'
import type { Tracing } from '#internal/telemetry/index.ts'
import {
  callbackField,
  type DirectoryCallback,
  type DirectoryTenant,
  notificationsField,
  notificationsUrlField,
  parseDurationMs,
  type SecretOpener,
} from '#internal/tenants/index.ts'
import type { RetrySchedule } from './decide.ts'
import type { PreparedDestination, SendResult } from './destinations/destination.ts'
import { type DestinationKindName, destinationKinds } from './destinations/registry.ts'
import { carriedHeaders } from './destinations/webhook/webhook.ts'

export interface PreparedTarget extends PreparedDestination {
  readonly kind: DestinationKindName
  readonly schedule: RetrySchedule
  /** True if the key ring cannot decrypt some of the secrets. No delivery is sent while this is true. */
  readonly isUnreadable: boolean
}

export interface CalledTenant extends DirectoryTenant {
  readonly callback: DirectoryCallback
}

export function hasCallback(tenant: DirectoryTenant): tenant is CalledTenant {
  return tenant.callback !== undefined
}

/** Returns whether a tenant has a destination of this name. */
export function hasDestination(tenant: DirectoryTenant, destination: DestinationName): boolean {
  if (destination === notificationsDestination) return tenant.notifications !== undefined
  return destination === callbackDestination && hasCallback(tenant)
}

/** Returns the names of a tenant's destinations. */
export function destinationsOf(tenant: DirectoryTenant): readonly DestinationName[] {
  return [callbackDestination, notificationsDestination].filter((name) => hasDestination(tenant, name))
}

export type OpensSecrets = Pick<SecretOpener, 'open'>

/** Caches prepared destinations while the tenant directory contains their tenant. */
export class PreparedTargets {
  readonly #secrets: OpensSecrets
  readonly #prepared = new WeakMap<DirectoryTenant, Map<DestinationName, PreparedTarget | undefined>>()

  constructor(secrets: OpensSecrets) {
    this.#secrets = secrets
  }

  /** Returns the same object for the same version of a tenant. */
  of(tenant: DirectoryTenant, destination: DestinationName): PreparedTarget | undefined {
    const known = this.#prepared.get(tenant) ?? new Map<DestinationName, PreparedTarget | undefined>()
    this.#prepared.set(tenant, known)
    if (!known.has(destination)) known.set(destination, prepare(this.#secrets, tenant, destination))
    return known.get(destination)
  }
}

function prepare(
  secrets: OpensSecrets,
  tenant: DirectoryTenant,
  destination: DestinationName,
): PreparedTarget | undefined {
  if (destination === notificationsDestination) return prepareNotifications(secrets, tenant)
  return destination === callbackDestination && hasCallback(tenant)
    ? prepareTenant(secrets, tenant)
    : undefined
}

/** Decrypts secrets, so callers should cache the result. */
export function prepareTenant(secrets: OpensSecrets, tenant: CalledTenant): PreparedTarget {
  const { url, rules } = tenant.callback
  const { values, unreadableKeyIds } = secrets.open(tenant, callbackField)
  return {
    kind: 'webhook',
    ...destinationKinds.webhook.prepare({
      url,
      shownUrl: url,
      allowedCIDRs: rules.allowedCIDRs,
      timeoutMs: rules.timeoutSeconds * 1000,
      signingSecrets: values,
    }),
    schedule: {
      waitsMs: rules.retry.schedule.map((wait) => parseDurationMs(wait) ?? 0),
      jitterPercent: rules.retry.jitterPercent,
    },
    isUnreadable: unreadableKeyIds.length > 0,
  }
}

/** Schedule with attempts over about a day. */
const notificationSchedule: RetrySchedule = {
  waitsMs: [0, 30_000, 300_000, 1_800_000, 7_200_000, 21_600_000, 43_200_000],
  jitterPercent: 20,
}

/** Maximum number of attempts of a notification. */
export const notificationAttemptsMax: number = notificationSchedule.waitsMs.length

function prepareNotifications(secrets: OpensSecrets, tenant: DirectoryTenant): PreparedTarget | undefined {
  const { notifications } = tenant
  if (notifications === undefined) return undefined
  const { format, allowedCIDRs, timeoutSeconds } = notifications
  const inSecret = secrets.open(tenant, notificationsUrlField)
  const signing = secrets.open(tenant, notificationsField)
  const url = notifications.url ?? inSecret.values[0] ?? ''
  const kind = format === 'event' ? 'webhook' : format
  return {
    kind,
    ...destinationKinds[kind].prepare({
      url,
      shownUrl: originOfUrl(url),
      allowedCIDRs,
      timeoutMs: timeoutSeconds * 1000,
      signingSecrets: signing.values,
    }),
    schedule: notificationSchedule,
    isUnreadable: inSecret.unreadableKeyIds.length + signing.unreadableKeyIds.length > 0,
  }
}

/** Returns the origin of a URL whose path can be a secret, such as that of a Slack webhook. */
export function originOfUrl(url: string): string {
  return `${URL.parse(url)?.origin ?? ''}/…`
}

export interface SendParts {
  readonly outbound: Outbound
  readonly tracing: Tracing
}

/** Calls a destination once, in a span that continues the trace of the provider's call. */
export function sendDelivery(
  { outbound, tracing }: SendParts,
  destination: PreparedDestination,
  sending: { readonly content: EventContent; readonly signal: AbortSignal; readonly nowMs: number },
): Promise<SendResult> {
  const { content } = sending
  const carried = carriedHeaders(content.headers)
  if (!tracing.enabled) return destination.send(outbound, { ...sending, ...carried })
  const options = {
    kind: 'client' as const,
    traceparent: carried.traceparent ?? null,
    attributes: { 'latchkey.provider': content.provider, 'latchkey.type': content.type },
  }
  return tracing.span('deliver', options, async (span) => {
    const sent = await destination.send(outbound, {
      ...sending,
      ...carried,
      traceparent: tracing.traceparent() ?? carried.traceparent,
    })
    const { result } = sent
    if (result.kind === 'failed') span.fail(result.cause)
    else span.set({ 'http.response.status_code': result.status })
    return sent
  })
}
