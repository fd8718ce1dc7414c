import http from 'node:http'
import https from 'node:https'
import { StringDecoder } from 'node:string_decoder'
import type { CallbackAgent } from './agent.ts'
import { ConnectError, codeOf } from './connect.ts'
import type { AnswerHeaders, CallFailureCause } from './result.ts'

/** One request to one address. */
export interface ExchangeRequest {
  readonly agent: CallbackAgent
  readonly method: 'GET' | 'POST'
  readonly address: string
  readonly port: number
  readonly path: string
  /** What the certificate must be valid for; none for plain HTTP. */
  readonly tlsName: string | undefined
  readonly headers: http.OutgoingHttpHeaders
  readonly body: string | Uint8Array
  /** How much of the answer is read. */
  readonly answerBytesMax: number
  readonly connectTimeoutMs: number
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
}

/** What came of it. */
export type Exchanged =
  | {
      readonly kind: 'answered'
      readonly status: number
      readonly headers: AnswerHeaders
      readonly answer: string
      readonly answerCut: boolean
    }
  | ExchangeFailed

/** No whole answer. */
export interface ExchangeFailed {
  readonly kind: 'failed'
  readonly cause: CallFailureCause
  /** The runtime's code. */
  readonly code?: string | undefined
  /** The status of an answer that began. */
  readonly status?: number | undefined
  /** A kept connection was used that its server had closed, most likely; nothing was answered. */
  readonly stale: boolean
}

const answerHeadBytesMax = 16_384
const answerHeaderCharsMax = 256

/**
 * Sends one request and reads at most `answerBytesMax` of its answer. Settles within `timeoutMs` and never rejects; a connection is used
 * again only after a whole answer.
 */
export function exchange(request: ExchangeRequest): Promise<Exchanged> {
  return new Promise((resolve) => {
    const { signal } = request
    let sent: http.ClientRequest | undefined
    let status: number | undefined
    const finish = (result: Exchanged) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
      resolve(result)
    }
    const fail = (cause: CallFailureCause, error?: unknown) => {
      const stale = cause === 'reset' && status === undefined && sent?.reusedSocket === true
      finish({ kind: 'failed', cause, code: codeOf(error), status, stale })
      sent?.destroy()
    }
    const abort = () => fail('aborted')
    const timer = setTimeout(() => fail('timeout'), Math.max(1, request.timeoutMs))
    signal?.addEventListener('abort', abort)
    if (signal?.aborted) {
      abort()
      return
    }
    try {
      sent = open(request)
    } catch (error) {
      // A header that is none, which only our own caller can have made.
      fail('protocol_error', error)
      return
    }
    sent.on('error', (error) => fail(causeOf(error), error))
    sent.on('close', () => fail('reset'))
    sent.on('upgrade', (_response, socket) => {
      socket.destroy()
      fail('protocol_error')
    })
    sent.on('response', (response) => {
      status = response.statusCode
      readAnswer(response, request.answerBytesMax, finish, (cause, error) => fail(cause, error))
    })
    sent.end(request.body)
  })
}

function open(request: ExchangeRequest): http.ClientRequest {
  const { tlsName, address } = request
  return (tlsName === undefined ? http : https).request({
    agent: request.agent,
    method: request.method,
    host: address,
    port: request.port,
    path: request.path,
    headers: request.headers,
    maxHeaderSize: answerHeadBytesMax,
    // Connections are kept apart by it: what one name's certificate opened serves no other name.
    ...(tlsName === undefined ? {} : { servername: tlsName === address ? '' : tlsName }),
    ...{ tlsName, connectTimeoutMs: request.connectTimeoutMs },
  })
}

function readAnswer(
  response: http.IncomingMessage,
  answerBytesMax: number,
  finish: (result: Exchanged) => void,
  fail: (cause: CallFailureCause, error?: unknown) => void,
): void {
  const decoder = new StringDecoder('utf8')
  let text = ''
  let bytes = 0
  const done = (answerCut: boolean) =>
    finish({
      kind: 'answered',
      status: response.statusCode ?? 0,
      headers: headersOf(response.headers),
      // Stores of text refuse NUL.
      answer: `${text}${decoder.end()}`.replaceAll('\0', '\uFFFD'),
      answerCut,
    })
  response.on('data', (chunk: Buffer) => {
    const room = answerBytesMax - bytes
    bytes += chunk.length
    text += decoder.write(chunk.subarray(0, room))
    if (bytes <= answerBytesMax) return
    done(true)
    response.destroy()
  })
  response.on('end', () => (response.complete ? done(false) : fail('reset')))
  response.on('error', (error) => fail(causeOf(error), error))
}

function headersOf(headers: http.IncomingHttpHeaders): AnswerHeaders {
  const one = (value: string | string[] | undefined) =>
    (Array.isArray(value) ? value[0] : value)?.slice(0, answerHeaderCharsMax)
  const retryAfter = one(headers['retry-after'])
  const webhookDelivery = one(headers['webhook-delivery'])
  const contentType = one(headers['content-type'])
  return {
    ...(retryAfter === undefined ? {} : { retryAfter }),
    ...(webhookDelivery === undefined ? {} : { webhookDelivery }),
    ...(contentType === undefined ? {} : { contentType }),
  }
}

function causeOf(error: unknown): CallFailureCause {
  if (error instanceof ConnectError) return error.stage
  const code = codeOf(error) ?? ''
  // TLS 1.3 tells a refused client only after the handshake.
  if (code.startsWith('ERR_SSL_')) return 'tls_failed'
  return code.startsWith('HPE_') ? 'protocol_error' : 'reset'
}
