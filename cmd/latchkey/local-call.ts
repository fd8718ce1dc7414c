import { memberText } from '#internal/base/index.ts'
import type { SigningKey } from '#internal/delivery/index.ts'
import type { EventContent } from '#internal/events/index.ts'
import type { ApiClient } from './api-client.ts'
import type { Result } from './cli.ts'

/** Fields that a delivery has besides payload and headers. */
export interface EventFields {
  readonly id: string
  readonly tenantId: string
  readonly provider: string
  readonly providerRawType: string
  readonly type: string
  readonly occurredAt: string
  readonly receivedAt: string
}

/** Returns the call of an event, made and signed as a forwarder does. */
export async function localCall(
  {
    event,
    payload,
    headers,
  }: {
    readonly event: EventFields
    /** JSON as received, because a parser could change its numbers. */
    readonly payload: string
    readonly headers: string
  },
  { url, key, nowMs }: { readonly url: string; readonly key: SigningKey; readonly nowMs: number },
) {
  const { id, tenantId, provider, providerRawType: rawType, type, occurredAt, receivedAt } = event
  // Loaded here, because most commands do not need deliveries.
  const { carriedHeaders, signedCall } = await import('#internal/delivery/index.ts')
  // Uses the texts of the answer as they are: its schema has checked them, and a later version can have more providers.
  const content = {
    id,
    tenantId,
    provider,
    rawType,
    type,
    payload,
    headers,
    occurredAtMs: Date.parse(occurredAt),
    receivedAtMs: Date.parse(receivedAt),
  } as EventContent
  // The time limit is 0, that is none here, because the caller limits the time.
  const target = { url, allowedCIDRs: [], timeoutMs: 0, keys: [key] }
  return signedCall(target, content, { ...carriedHeaders(headers), nowMs })
}

/** Returns the curl command of an event's call, made and signed as a forwarder does. */
export async function curlOf(
  api: ApiClient<'public'>,
  {
    id,
    url,
    key,
    nowMs,
  }: { readonly id: string; readonly url: string; readonly key: SigningKey; readonly nowMs: number },
): Promise<Result> {
  const path = { eventId: id }
  const detail = await api.call('readEvent', { path })
  if (detail.kind === 'problem') return detail
  const stored = await api.call('readEventPayload', { path })
  if (stored.kind === 'problem') return stored
  const payload = memberText(stored.text, 'payload')
  const headers = JSON.stringify(detail.body.headers)
  const call = await localCall({ event: detail.body.event, payload, headers }, { url, key, nowMs })
  // Loaded here, because most commands do not need deliveries.
  const { curlCommand } = await import('#internal/delivery/index.ts')
  const command = curlCommand({ url, headers: Object.entries(call.headers), body: call.body })
  return { text: command, json: { command } }
}
