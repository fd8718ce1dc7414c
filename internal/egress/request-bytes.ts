import type { CallbackUrl } from './callback-url.ts'

/** What goes out in one request. */
export interface RequestContent {
  /** Default: POST. A GET has no body. */
  readonly method?: 'GET' | 'POST'
  /** Names in lower case. `host`, `content-length`, `connection` and `accept-encoding` are set here. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

const token = /^[!#$%&'*+\-.^_`|~0-9a-z]+$/
/** All that is printed; nothing that could end a line. */
const fieldValue = /^[\t\x20-\x7e]*$/

/** A request of HTTP/1.1 as bytes, head and body in one piece. Undefined when a header is none, or not of ASCII. */
export function requestBytes(content: RequestContent, url: CallbackUrl): Buffer | undefined {
  const { method = 'POST', headers, body } = content
  let head = `${method} ${url.path} HTTP/1.1\r\nhost: ${url.authority}\r\n`
  for (const name in headers) {
    const value = headers[name] ?? ''
    if (!token.test(name) || !fieldValue.test(value)) return undefined
    head += `${name}: ${value}\r\n`
  }
  // What is kept of an answer is text.
  head += 'accept-encoding: identity\r\nconnection: keep-alive\r\n'
  if (method === 'GET') return Buffer.from(`${head}\r\n`, 'latin1')
  head += `content-length: ${Buffer.byteLength(body)}\r\n\r\n`
  return typeof body === 'string'
    ? Buffer.from(head + body, 'utf8')
    : Buffer.concat([Buffer.from(head, 'latin1'), body])
}
