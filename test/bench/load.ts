import { quantileOf } from './bounds.ts'

/** Result of a load. */
export interface LoadResult {
  readonly perSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly requests: number
  /** Answers with a status other than 200. */
  readonly failed: number
}

/** Closed-loop load: connections that each send one request after another. */
export interface LoadOptions {
  readonly port: number
  readonly connections: number
  readonly durationMs: number
  /**
   * Returns the text of the n-th HTTP/1.1 request, with keep-alive.
   * @param connection index of the connection that sends it
   * @param answer text of the previous answer on this connection; empty before the first
   */
  request(n: number, connection: number, answer: string): string
}

const headEnd = '\r\n\r\n'

/**
 * Sends requests over plain sockets for `durationMs` and measures each answer with little CPU, since generator and server share the
 * machine's cores. Supports only answers with Content-Length, over loopback.
 */
export async function runLoad(options: LoadOptions): Promise<LoadResult> {
  const latencies = new Float64Array(4_000_000)
  let count = 0
  let sent = 0
  let failed = 0
  const startedAt = performance.now()
  const endsAt = startedAt + options.durationMs
  const oneConnection = (connection: number) =>
    new Promise<void>((resolve, reject) => {
      let pending = ''
      let sentAt = 0
      let answer = ''
      const send = (socket: { write(text: string): number }) => {
        sentAt = performance.now()
        const text = options.request(sent++, connection, answer)
        if (socket.write(text) !== Buffer.byteLength(text))
          throw new Error('the request did not fit the socket buffer')
      }
      void Bun.connect({
        hostname: '127.0.0.1',
        port: options.port,
        socket: {
          open: send,
          data(socket, chunk) {
            pending = pending === '' ? chunk.toString('latin1') : pending + chunk.toString('latin1')
            const length = answerLength(pending)
            if (pending.length < length) return
            const now = performance.now()
            if (count < latencies.length) latencies[count++] = now - sentAt
            if (!pending.startsWith('HTTP/1.1 200')) failed += 1
            answer = pending
            pending = ''
            if (now < endsAt) send(socket)
            else socket.end()
          },
          close: () => resolve(),
          error: (_socket, error) => reject(error),
        },
      }).catch(reject)
    })
  await Promise.all(Array.from({ length: options.connections }, (_, connection) => oneConnection(connection)))
  const seconds = (performance.now() - startedAt) / 1000
  const sorted = latencies.subarray(0, count).sort()
  const at = (share: number) => quantileOf(sorted, share)
  return { perSecond: count / seconds, p50Ms: at(0.5), p99Ms: at(0.99), requests: count, failed }
}

/** Returns the length of an answer in bytes, or Infinity before its head is complete. @throws without Content-Length */
export function answerLength(text: string): number {
  const end = text.indexOf(headEnd)
  if (end < 0) return Number.POSITIVE_INFINITY
  const at = text.toLowerCase().indexOf('content-length:')
  if (at < 0 || at > end) throw new Error('an answer without Content-Length')
  return end + headEnd.length + Number.parseInt(text.slice(at + 15, end), 10)
}

/** Returns the text of a request, with a JSON body if given. */
export function requestText(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body = '',
): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`)
  const length =
    body === '' ? '' : `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n`
  return `${method} ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n${lines.join('')}${length}\r\n${body}`
}
