import { concatBytes, encodeText, type ReadBytes } from './bytes.ts'
import { Guard, type Guarded, type IdempotencyOptions, operationOf } from './guard.ts'
import type { Latchkey } from './latchkey.ts'
import { type NodeRequest, parsedBody, readNodeBody } from './node-http.ts'
import { takeNothingHappened } from './outcome.ts'
import { problemResponse } from './problem.ts'
import { type CapturedResponse, keepHeaders } from './stored-response.ts'
import type { Receiver } from './webhooks.ts'

export { type IdempotencyOptions, type Operation, operationOf } from './guard.ts'

const lockSecondsDefault = 60

/** The part of a request of Fastify that is used. */
export interface FastifyRequest {
  readonly method: string
  readonly originalUrl: string
  readonly headers: NodeRequest['headers']
  readonly body: unknown
  readonly raw: NodeRequest
  readonly routeOptions: { readonly url?: string | undefined }
}

/** The part of a reply of Fastify that is used. */
export interface FastifyReply {
  readonly statusCode: number
  readonly raw: { readonly destroyed: boolean; once(event: 'close', listener: () => void): unknown }
  code(status: number): unknown
  headers(headers: Record<string, string>): unknown
  getHeaders(): Record<string, number | string | string[] | undefined>
  send(payload?: unknown): unknown
}

/** The part of an instance of Fastify that is used. */
export interface FastifyInstance {
  /** Typed as `never`, because the overloads of `addHook` use types of Fastify. */
  addHook(name: never, hook: never): unknown
}

declare const Buffer: { from(bytes: Uint8Array): Uint8Array }

/** Handler that runs under the guard, until it has sent its response. */
interface Running {
  /** Resolves once the response is saved, or given up. */
  readonly guarded: Promise<Guarded>
  end(response: CapturedResponse): void
  giveUp(error: Error): void
}
/**
 * Creates a plugin for Fastify: `app.register(idempotency(latchkey, { principal }))`. It guards the routes of the scope that registers it.
 * `principal` is called in `preHandler`, so identify the caller in `onRequest` or in a `preHandler` added before.
 */
export function idempotency<Req extends FastifyRequest>(
  latchkey: Latchkey,
  options: IdempotencyOptions<readonly [request: Req]>,
): (app: FastifyInstance) => Promise<void> {
  const hooks = new Hooks(new Guard(latchkey, options), (options.lockSeconds ?? lockSecondsDefault) * 1000)
  const plugin = async (app: FastifyInstance) => {
    for (const [name, hook] of Object.entries(hooks.byName())) app.addHook(name as never, hook as never)
  }
  // Fastify then adds the hooks to the scope that registers the plugin, instead of creating a separate scope.
  return Object.assign(plugin, { [Symbol.for('skip-override')]: true })
}

class Hooks<Req extends FastifyRequest> {
  readonly #guard: Guard<readonly [request: Req]>
  readonly #hungUpMsMax: number
  readonly #bodies = new WeakMap<Req, ReadBytes>()
  readonly #running = new WeakMap<Req, Running>()

  constructor(guard: Guard<readonly [request: Req]>, hungUpMsMax: number) {
    this.#guard = guard
    this.#hungUpMsMax = hungUpMsMax
  }

  /** Returns the hooks by their names. */
  byName() {
    return {
      preParsing: (request: Req, reply: FastifyReply, payload: unknown) =>
        this.readBody(request, reply, payload),
      preHandler: (request: Req, reply: FastifyReply) => this.start(request, reply),
      onError: async (request: Req, _reply: FastifyReply, error: unknown) => {
        if (takeNothingHappened(error)) operationOf(request)?.nothingHappened()
      },
      onSend: (request: Req, reply: FastifyReply, payload: unknown) => this.end(request, reply, payload),
      onResponse: (request: Req, reply: FastifyReply) => this.finish(request, reply),
    }
  }

  /** Reads the body before Fastify parses it, unless another hook has replaced the stream. */
  async readBody(request: Req, reply: FastifyReply, payload: unknown): Promise<unknown> {
    const isGuarded = this.#guard.guards(request.method) && request.headers['idempotency-key'] !== undefined
    if (!isGuarded || payload !== request.raw) return payload
    const body = await readNodeBody(request.raw, this.#guard.requestBytesMax)
    this.#bodies.set(request, body)
    return body.kind === 'whole' ? payload : answer(reply, problemResponse('idempotency_request_too_large'))
  }

  /** Resolves when the handler may run, or with the reply if the response has been sent. */
  start(request: Req, reply: FastifyReply): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const { method, originalUrl, headers, routeOptions } = request
      const guarded = this.#guard.run(
        {
          method,
          target: originalUrl,
          args: [request] as const,
          object: request,
          route: routeOptions.url ?? originalUrl.replace(/\?.*$/s, ''),
          keyHeader: headers['idempotency-key']?.toString(),
          readBody: async (bytesMax) => this.#bodies.get(request) ?? parsedBody(request.body, bytesMax),
        },
        () =>
          new Promise((end, giveUp) => {
            this.#running.set(request, { guarded, end, giveUp })
            // Fastify calls `onRequestAbort` only if the caller hangs up before its request is complete, so later hang-ups are detected
            // here.
            if (reply.raw.destroyed) this.#abandon(request)
            else reply.raw.once('close', () => this.#abandon(request))
            resolve(undefined)
          }),
      )
      guarded.then(
        (result) => resolve(result.kind === 'answer' ? answer(reply, result.response) : undefined),
        reject,
      )
    })
  }

  /** Captures the response, and returns what is to be sent once it is saved. */
  async end(request: Req, reply: FastifyReply, payload: unknown): Promise<unknown> {
    const running = this.#running.get(request)
    if (running === undefined) return payload
    const content = isResponse(payload) ? takeHead(payload, reply) : payload
    const headers = reply.getHeaders()
    if (/^text\/event-stream\b/i.test(String(headers['content-type'] ?? '')))
      throw new TypeError(
        `Latchkey: ${request.routeOptions.url} answers with an event stream, which cannot be replayed`,
      )
    this.#running.delete(request)
    try {
      const { body, sent } = await readPayload(content, this.#guard.responseBytesMax)
      const kept = keepHeaders(Object.entries(headers), this.#guard.headersKept)
      running.end({ status: reply.statusCode, headers: kept, body })
      // Sends the response even if the guard throws, because the handler has had its effect.
      await running.guarded.catch(() => undefined)
      return sent
    } catch (error) {
      running.giveUp(error as Error)
      throw error
    }
  }

  /** Ends an operation whose handler sent its response directly, bypassing Fastify. */
  async finish(request: Req, reply: FastifyReply): Promise<void> {
    this.#running.get(request)?.end({ status: reply.statusCode, headers: {}, body: undefined })
    this.#running.delete(request)
  }

  /** Bounds the time that a handler has to respond after its caller hung up. */
  #abandon(request: Req): void {
    const running = this.#running.get(request)
    if (running === undefined) return
    const error = new Error(`Latchkey: ${request.routeOptions.url} did not respond`)
    const timer = setTimeout(() => running.giveUp(error), this.#hungUpMsMax)
    const stop = () => clearTimeout(timer)
    running.guarded.then(stop, stop)
  }
}

function answer(reply: FastifyReply, { status, headers, body }: CapturedResponse): unknown {
  reply.code(status)
  reply.headers({ ...headers })
  reply.send(body === undefined || body.length === 0 ? undefined : Buffer.from(body))
  return reply
}

/** Accepts other classes than the global `Response`, as Fastify does. */
function isResponse(payload: unknown): payload is Response {
  return Object.prototype.toString.call(payload) === '[object Response]'
}

/** Sets status and headers of a response of the Fetch API, as Fastify does after all hooks, and returns its body. */
function takeHead({ status, headers, body }: Response, reply: FastifyReply): Response['body'] {
  reply.code(status)
  for (const [name, value] of headers) reply.headers({ [name]: value })
  return body
}

/** Reads a response up to its maximum. `sent` is the response itself; `body` is undefined if the response is longer than the maximum. */
async function readPayload(
  payload: unknown,
  bytesMax: number,
): Promise<{ readonly body: Uint8Array | undefined; readonly sent: unknown }> {
  if (payload === undefined || payload === null) return { body: new Uint8Array(), sent: payload }
  if (typeof payload === 'string' || payload instanceof Uint8Array) {
    const bytes = typeof payload === 'string' ? encodeText(payload) : payload
    return { body: bytes.byteLength > bytesMax ? undefined : bytes, sent: payload }
  }
  const chunks = (payload as AsyncIterable<Uint8Array | string>)[Symbol.asyncIterator]()
  const parts: Uint8Array[] = []
  for (let length = 0; length <= bytesMax; ) {
    const { done, value } = await chunks.next()
    if (done === true) {
      const body = concatBytes(parts)
      return { body, sent: Buffer.from(body) }
    }
    const bytes = typeof value === 'string' ? encodeText(value) : value
    parts.push(bytes)
    length += bytes.byteLength
  }
  return { body: undefined, sent: streamOf(parts, chunks) }
}

function streamOf(
  parts: readonly Uint8Array[],
  chunks: AsyncIterator<Uint8Array | string>,
): ReadableStream<Uint8Array> {
  return new ReadableStream({
    start: (controller) => {
      for (const part of parts) controller.enqueue(part)
    },
    async pull(controller) {
      const { done, value } = await chunks.next()
      if (done === true) controller.close()
      else controller.enqueue(typeof value === 'string' ? encodeText(value) : value)
    },
    cancel: async () => void (await chunks.return?.()),
  })
}

/** The part of an instance of Fastify that a receiver uses. */
export interface FastifyScope {
  removeAllContentTypeParsers(): unknown
  addContentTypeParser(type: never, options: never, parser: never): unknown
  post(url: never, handler: never): unknown
}

/**
 * Creates a plugin for Fastify with the route of a receiver of webhooks: `app.register(fastifyReceiver(receive, '/webhooks'))`. Its route
 * reads the body itself, since a signature covers the bytes.
 */
export function fastifyReceiver(receive: Receiver, url: string): (app: FastifyScope) => Promise<void> {
  const handler = async ({ raw }: { readonly raw: NodeRequest }, reply: FastifyReply) => {
    const { status, headers } = await receive.deliver({
      header: (name) => raw.headers[name]?.toString(),
      readBody: (bytesMax) => readNodeBody(raw, bytesMax),
    })
    return answer(reply, { status, headers, body: undefined })
  }
  return async (app) => {
    app.removeAllContentTypeParsers()
    app.addContentTypeParser('*' as never, {} as never, (async () => undefined) as never)
    app.post(url as never, handler as never)
  }
}
