import { readFileSync } from 'node:fs'
import {
  createSecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type ServerHttp2Session,
} from 'node:http2'
import type { AddressInfo, Socket } from 'node:net'
import { join } from 'node:path'
import type { Endpoint } from '#internal/kube/index.ts'

/** Received request. */
export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Headers
  readonly body: unknown
}

/** Fake API server with answers that a real one cannot be made to give. */
export interface FakeApiServer {
  readonly endpoint: Endpoint
  readonly seen: readonly SeenRequest[]
  /** Number of open HTTP/2 connections. */
  connections(): number
  /** Sends GOAWAY on each HTTP/2 connection. */
  goAway(): void
  stop(): Promise<void>
}

/** Options of a fake server. */
export interface FakeServerOptions {
  /** Maximum streams per HTTP/2 connection. Default 100, like a real one. */
  readonly streamsMax?: number
}

const fixtures = join(import.meta.dir, '../../../internal/egress/fixtures')
const pem = (name: string) => readFileSync(join(fixtures, name), 'utf8')

/** Starts it on a local port with TLS; serves calls by HTTP/1.1 and watches by HTTP/2, like a real one. */
export function startFakeApiServer(
  answer: (request: SeenRequest) => Response | Promise<Response>,
  { streamsMax = 100 }: FakeServerOptions = {},
): FakeApiServer {
  const seen: SeenRequest[] = []
  const sessions = new Set<ServerHttp2Session>()
  const sockets = new Set<Socket>()
  const tls = { cert: pem('server.pem'), key: pem('server-key.pem') }
  const server = createSecureServer({
    ...tls,
    allowHTTP1: true,
    settings: { maxConcurrentStreams: streamsMax },
  })
  server.on('session', (session) => {
    sessions.add(session)
    session.on('error', () => undefined)
    session.on('close', () => sessions.delete(session))
  })
  server.on('secureConnection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  const serve = async (request: Http2ServerRequest, response: Http2ServerResponse) => {
    const one = await seenOf(request)
    seen.push(one)
    await send(await answer(one), response)
  }
  server.on('request', (request, response) => {
    // Ignores errors of pending answers, which fail after a test has finished.
    serve(request, response).catch(() => response.destroy())
  })
  server.listen(0, '127.0.0.1')
  const { port } = server.address() as AddressInfo
  return {
    endpoint: {
      server: `https://127.0.0.1:${port}`,
      namespace: 'default',
      credentials: () =>
        Promise.resolve({
          ca: pem('ca.pem'),
          cert: undefined,
          key: undefined,
          serverName: undefined,
          headers: { authorization: 'Bearer test' },
        }),
    },
    seen,
    connections: () => sessions.size,
    goAway: () => {
      for (const session of sessions) session.goaway()
    },
    async stop() {
      for (const session of sessions) session.destroy()
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

async function seenOf(request: Http2ServerRequest): Promise<SeenRequest> {
  const url = new URL(request.url, 'https://127.0.0.1')
  const chunks: Uint8Array[] = []
  for await (const chunk of request) chunks.push(chunk as Uint8Array)
  const text = Buffer.concat(chunks).toString('utf8')
  const headers = Object.entries(request.headers).filter(([name]) => !name.startsWith(':'))
  return {
    method: request.method,
    path: url.pathname,
    query: Object.fromEntries(url.searchParams),
    headers: new Headers(headers.map(([name, value]) => [name, String(value)])),
    body: text === '' ? undefined : (JSON.parse(text) as unknown),
  }
}

/** Streams a response until its body or the connection ends. */
async function send(answer: Response, response: Http2ServerResponse): Promise<void> {
  const reader = (answer.body as ReadableStream<Uint8Array> | null)?.getReader()
  response.on('close', () => void reader?.cancel().catch(() => undefined))
  response.writeHead(answer.status, Object.fromEntries(answer.headers))
  for (;;) {
    const { done = true, value } = (await reader?.read()) ?? {}
    if (done) break
    response.write(value ?? '')
  }
  response.end()
}

/** Answer to a watch, sent line by line. */
export interface FakeWatch {
  readonly response: Response
  /** True if the client ended it. */
  readonly cancelled: () => boolean
  send(...lines: readonly (object | string)[]): void
  end(): void
}

/** Creates the answer to a watch; the test sends each line. */
export function openFakeWatch(): FakeWatch {
  let cancelled = false
  let controller: ReadableStreamDefaultController<Uint8Array> | undefined
  const encoder = new TextEncoder()
  const body = new ReadableStream<Uint8Array>({
    start: (given) => {
      controller = given
    },
    cancel: () => {
      cancelled = true
    },
  })
  return {
    // Sends an empty line, which has no meaning, because Bun sends the head with the first bytes.
    get response() {
      controller?.enqueue(encoder.encode('\n'))
      return new Response(body, { headers: { 'content-type': 'application/json' } })
    },
    cancelled: () => cancelled,
    send: (...lines) => {
      for (const line of lines)
        controller?.enqueue(encoder.encode(`${typeof line === 'string' ? line : JSON.stringify(line)}\n`))
    },
    end: () => controller?.close(),
  }
}
