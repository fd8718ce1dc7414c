import type { VNode } from 'preact'
import { renderToString } from 'preact-render-to-string'
import type { Answer } from '#internal/http/index.ts'
import { acceptsGzip } from './assets/assets.ts'
import { securityHeaders } from './security-headers.ts'

/** What a document is sent with. */
export interface DocumentOptions {
  readonly status: number
  /** For the log and the metric, of a closed set. */
  readonly outcome: string
  readonly acceptEncoding: string | null
  readonly headers?: Readonly<Record<string, string>>
}

const gzipLevel = 5

/**
 * Makes the answer that holds a document. It is compressed although it holds a form's token beside text that may come from outside,
 * by which whoever measures answers on their way could guess a secret bit by bit (BREACH, https://breachattack.com): the token is
 * masked anew in each answer, and no page shows an API key or a signing secret.
 */
export function documentAnswer(
  document: VNode,
  { status, outcome, acceptEncoding, headers }: DocumentOptions,
): Answer<Uint8Array<ArrayBuffer>> {
  const bytes = Uint8Array.from(Buffer.from(`<!doctype html>${renderToString(document)}`))
  const isGzip = acceptsGzip(acceptEncoding)
  return {
    kind: 'answer',
    status,
    outcome,
    body: isGzip ? Uint8Array.from(Bun.gzipSync(bytes, { level: gzipLevel })) : bytes,
    headers: {
      ...securityHeaders,
      'Content-Type': 'text/html; charset=utf-8',
      Vary: 'Accept-Encoding, Cookie',
      ...(isGzip && { 'Content-Encoding': 'gzip' }),
      ...headers,
    },
  }
}

/** Makes the answer that leads to another page of ours, which is then asked for with GET. */
export function redirectAnswer(path: string, cookie?: string): Answer {
  return {
    ...{ kind: 'answer', status: 303, outcome: 'redirect', body: '' },
    headers: {
      ...securityHeaders,
      'Content-Type': 'text/plain; charset=utf-8',
      Location: path,
      ...(cookie !== undefined && { 'Set-Cookie': cookie }),
    },
  }
}
