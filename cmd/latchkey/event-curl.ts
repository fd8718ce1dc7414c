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
  const options = Object.entries(call.headers).map(
    ([name, value]) => `  -H ${quoted(`${name}: ${value}`)} \\`,
  )
  // The body is piped, since the length of an argument is limited. printf is part of the shell, and so has no such limit.
  const command = [
    `printf %s ${quoted(call.body)} | curl -sS -i -X POST ${quoted(url)} \\`,
    ...options,
    '  --data-binary @-',
  ].join('\n')
  return { text: command, json: { command } }
}

/** Quotes a word for a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
