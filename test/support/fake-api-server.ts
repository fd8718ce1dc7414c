import type { Endpoint } from '#internal/kube/index.ts'

/** One request that the server got. */
export interface SeenRequest {
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string>>
  readonly headers: Headers
  readonly body: unknown
}

/** A server that says what a real API server cannot be made to say. */
export interface FakeApiServer {
  readonly endpoint: Endpoint
  readonly seen: readonly SeenRequest[]
  stop(): Promise<void>
}

/** Starts one on a port of this machine, by plain http. */
export function startFakeApiServer(
  answer: (request: SeenRequest) => Response | Promise<Response>,
): FakeApiServer {
  const seen: SeenRequest[] = []
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    idleTimeout: 0,
    async fetch(request) {
      const url = new URL(request.url)
      const text = await request.text()
      const one: SeenRequest = {
        method: request.method,
        path: url.pathname,
        query: Object.fromEntries(url.searchParams),
        headers: request.headers,
        body: text === '' ? undefined : (JSON.parse(text) as unknown),
      }
      seen.push(one)
      return answer(one)
    },
  })
  return {
    endpoint: {
      server: `http://127.0.0.1:${server.port}`,
      namespace: 'default',
      credentials: () =>
        Promise.resolve({
          ca: undefined,
          cert: undefined,
          key: undefined,
          serverName: undefined,
          headers: { authorization: 'Bearer test' },
        }),
    },
    seen,
    stop: () => server.stop(true),
  }
}

/** The answer to a watch, line by line. */
export interface FakeWatch {
  readonly response: Response
  /** Whether the client ended it. */
  readonly cancelled: () => boolean
  send(...lines: readonly (object | string)[]): void
  end(): void
}

/** Makes the answer to a watch; nothing is sent until the test says so. */
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
    // Bun sends the head with the first bytes; an empty line means nothing.
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
