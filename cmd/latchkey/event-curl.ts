import { open } from 'node:fs/promises'
import type { SigningKey } from '#internal/delivery/index.ts'
import type { EventContent } from '#internal/events/index.ts'
import { type ApiClient, memberText, type Schemas } from './api-client.ts'
import { exitCodes, type Problem, type Result } from './cli.ts'

const secretBytesMax = 4_096

/** Reads the signing secret of a callback from a file, or takes the one of the environment. */
export async function readSigningKey(
  path: string | undefined,
  given: string | undefined,
): Promise<{ readonly key: SigningKey } | Problem> {
  const secret = path === undefined ? given : await readSecret(path)
  if (typeof secret === 'object') return secret
  if (secret === undefined)
    return misuse('A signing secret is needed: give --secret-file PATH, or set LATCHKEY_SIGNING_SECRET')
  const { prepareSigningKey } = await import('#internal/delivery/index.ts')
  const key = prepareSigningKey(secret.trim())
  const place = path ?? 'LATCHKEY_SIGNING_SECRET'
  return key === undefined
    ? misuse(`${place} is no signing secret: expected whsec_ followed by the base64 of 24 to 64 bytes`)
    : { key }
}

async function readSecret(path: string): Promise<string | Problem> {
  try {
    await using file = await open(path)
    const { buffer, bytesRead } = await file.read(Buffer.alloc(secretBytesMax), 0, secretBytesMax)
    return buffer.toString('utf8', 0, bytesRead)
  } catch (error) {
    const reason = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
    return misuse(`${path} cannot be read: ${reason}`)
  }
}

function misuse(problem: string): Problem {
  return { problem, exitCode: exitCodes.misused }
}

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
  const content = parseContent(detail.body, memberText(stored.text, 'payload'))
  const { carriedHeaders, signedCall } = await import('#internal/delivery/index.ts')
  const call = signedCall({ url, allowedCIDRs: [], timeoutMs: 0, keys: [key] }, content, {
    ...carriedHeaders(content.headers),
    nowMs,
  })
  const headers = Object.entries(call.headers).map(
    ([name, value]) => `  -H ${quoted(`${name}: ${value}`)} \\`,
  )
  // The body is piped, since the length of an argument is limited. printf is part of the shell, and so has no such limit.
  const command = [
    `printf %s ${quoted(call.body)} | curl -sS -i -X POST ${quoted(url)} \\`,
    ...headers,
    '  --data-binary @-',
  ].join('\n')
  return { text: command, json: { command } }
}

function parseContent({ event, headers }: Schemas<'public'>['EventDetail'], payload: string): EventContent {
  const { id, tenantId, provider, providerRawType: rawType, type, occurredAt, receivedAt } = event
  const text = { id, tenantId, provider, rawType, type, payload, headers: JSON.stringify(headers) }
  const content = { ...text, occurredAtMs: Date.parse(occurredAt), receivedAtMs: Date.parse(receivedAt) }
  // Its texts are checked by the schema of the answer; a later version can have more providers.
  return content as EventContent
}

/** Quotes a word for a POSIX shell. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`
}
