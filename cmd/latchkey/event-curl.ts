import type { SigningKey } from '#internal/delivery/index.ts'
import { type ApiClient, memberText } from './api-client.ts'
import type { Result } from './cli.ts'
import { localCall } from './local-call.ts'

/** Delivery to print. */
interface Wanted {
  readonly id: string
  readonly url: string
  readonly key: SigningKey
  readonly nowMs: number
}

/** Returns the delivery of an event as a curl command, made and signed like a call of the forwarder. */
export async function curlOf(api: ApiClient<'public'>, { id, url, key, nowMs }: Wanted): Promise<Result> {
  const path = { eventId: id }
  const detail = await api.call('readEvent', { path })
  if (detail.kind === 'problem') return detail
  const stored = await api.call('readEventPayload', { path })
  if (stored.kind === 'problem') return stored
  const payload = memberText(stored.text, 'payload')
  const headers = JSON.stringify(detail.body.headers)
  const call = await localCall({ event: detail.body.event, payload, headers }, { url, key, nowMs })
  // Loaded here, since most commands need nothing of the stores.
  const { curlCommand } = await import('#internal/delivery/index.ts')
  const command = curlCommand({ url, headers: Object.entries(call.headers), body: call.body })
  return { text: command, json: { command } }
}
