import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Elysia } from 'elysia'
import express, {
  type Express,
  type Request as ExpressRequest,
  type Response as ExpressResponse,
  type NextFunction,
  type RequestHandler,
} from 'express'
// @ts-expect-error: the older version has no types.
import express4 from 'express4'
import { fastify } from 'fastify'
import { type Context, Hono } from 'hono'
import * as forExpress from '../../clients/typescript/src/express.ts'
import * as forFastify from '../../clients/typescript/src/fastify.ts'
import * as forFetch from '../../clients/typescript/src/fetch.ts'
import type { IdempotencyOptions, Operation } from '../../clients/typescript/src/guard.ts'
import type { Latchkey } from '../../clients/typescript/src/index.ts'

/** Response of a handler, in the terms of no framework. */
export interface Reply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string | string[]>>
  /** Sent in several writes if it is an array. */
  readonly body?: string | Uint8Array | readonly string[]
}

/** Call of a handler. */
export interface HandlerCall {
  readonly path: string
  /** Body as the handler reads it. */
  readonly body: string
  readonly operation: Operation | undefined
}

/** Handler in the terms of no framework. */
export type Handle = (call: HandlerCall) => Promise<Reply>

/** Options of all frameworks; the caller is named by the header `x-user`. */
export type AppOptions = Omit<IdempotencyOptions<readonly unknown[]>, 'principal'>

/** Running server with guarded routes `/charges`, `/orders/:id` and `/events`. */
export interface App {
  readonly url: string
  close(): Promise<void>
}

type Start = (latchkey: Latchkey, options: AppOptions, handle: Handle) => Promise<App>

const paths = ['/charges', '/orders/:id', '/events']

/** Returns an app of each framework and way of use, by name. */
export const frameworks: Readonly<Record<string, Start>> = {
  'Fetch API': (latchkey, options, handle) => {
    const principal = (request: Request) => request.headers.get('x-user') ?? ''
    const guarded = forFetch.idempotent(latchkey, { ...options, principal }, async (request) =>
      webResponse(await handle(await webCall(request, forFetch.operationOf(request)))),
    )
    return serveWeb(guarded)
  },
  Hono: (latchkey, options, handle) => {
    const app = new Hono()
    const principal = (context: Context) => context.req.header('x-user') ?? ''
    const guard = forFetch.idempotency(latchkey, { ...options, principal })
    for (const path of paths)
      app.on(['GET', 'POST', 'PUT', 'PATCH'], path, guard, async (context) => {
        const operation = forFetch.operationOf(context.req.raw)
        return webResponse(
          await handle({ path: context.req.path, body: await context.req.text(), operation }),
        )
      })
    return serveWeb((request) => app.fetch(request))
  },
  Elysia: (latchkey, options, handle) => {
    const principal = (request: Request) => request.headers.get('x-user') ?? ''
    const guarded = forFetch.idempotent(latchkey, { ...options, principal }, async (request) =>
      webResponse(await handle(await webCall(request, forFetch.operationOf(request)))),
    )
    const app = new Elysia()
    for (const path of paths) app.all(path, ({ request }) => guarded(request), { parse: 'none' })
    return serveWeb((request) => app.handle(request))
  },
  'Express 5, parsed after': (...args) => serveExpress(express(), 'after', ...args),
  'Express 5, parsed before': (...args) => serveExpress(express(), 'before', ...args),
  'Express 4, parsed after': (...args) => serveExpress(express4() as Express, 'after', ...args),
  'Express 4, parsed before': (...args) => serveExpress(express4() as Express, 'before', ...args),
  Fastify: async (latchkey, options, handle) => {
    const app = fastify({ forceCloseConnections: true })
    // Handlers get the text, as those of the other frameworks.
    app.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) =>
      done(null, body),
    )
    await app.register(
      forFastify.idempotency(latchkey, {
        ...options,
        principal: ({ headers }) => String(headers['x-user'] ?? ''),
      }),
    )
    for (const url of paths)
      app.route({
        method: ['GET', 'POST', 'PUT', 'PATCH'],
        url,
        handler: async (request, reply) => {
          const operation = forFastify.operationOf(request)
          const { status, headers, body } = await handle({
            path: request.originalUrl,
            body: String(request.body ?? ''),
            operation,
          })
          reply.code(status).headers(headers ?? {})
          return reply.send(Array.isArray(body) ? new Response(streamOf(body)).body : body)
        },
      })
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
}

async function webCall(request: Request, operation: Operation | undefined): Promise<HandlerCall> {
  const { pathname, search } = new URL(request.url)
  return { path: pathname + search, body: await request.text(), operation }
}

function webResponse({ status, headers = {}, body }: Reply): Response {
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((each) => [name, each] as [string, string]),
  )
  const content = Array.isArray(body) ? streamOf(body) : ((body ?? null) as BodyInit | null)
  return new Response(content, { status, headers: pairs })
}

function streamOf(parts: readonly string[]): ReadableStream<Uint8Array> {
  const rest = [...parts]
  return new ReadableStream({
    pull(controller) {
      const part = rest.shift()
      if (part === undefined) controller.close()
      else controller.enqueue(new TextEncoder().encode(part))
    },
  })
}

async function serveWeb(fetch: (request: Request) => Response | Promise<Response>): Promise<App> {
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch,
    error: () => new Response('error', { status: 500 }),
  })
  return { url: `http://127.0.0.1:${server.port}`, close: () => server.stop(true) }
}

async function serveExpress(
  app: Express,
  parsed: 'before' | 'after',
  latchkey: Latchkey,
  options: AppOptions,
  handle: Handle,
): Promise<App> {
  const guard = forExpress.idempotency(latchkey, {
    ...options,
    principal: (request: ExpressRequest) => request.get('x-user') ?? '',
  })
  const parser = express.text({ type: '*/*', limit: '4mb' })
  const respond = async (request: ExpressRequest, response: ExpressResponse, next: NextFunction) => {
    try {
      const body = typeof request.body === 'string' ? request.body : ''
      const operation = forExpress.operationOf(request)
      writeReply(response, await handle({ path: request.originalUrl, body, operation }))
    } catch (error) {
      next(error)
    }
  }
  const handler: RequestHandler = (...args) => void respond(...args)
  for (const path of paths)
    app.all(path, ...(parsed === 'before' ? [parser, guard] : [guard, parser]), handler)
  app.use((_error: unknown, _request: IncomingMessage, response: ServerResponse, _next: unknown) => {
    response.statusCode = 500
    response.end('error')
  })
  const server: Server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  const port = typeof address === 'object' ? address?.port : undefined
  return {
    url: `http://127.0.0.1:${port}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function writeReply(response: ExpressResponse, { status, headers = {}, body }: Reply): void {
  response.status(status)
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  if (Array.isArray(body)) {
    for (const part of body as readonly string[]) response.write(part)
    response.end()
  } else if (typeof body === 'string') response.send(body)
  else if (body instanceof Uint8Array) response.end(body)
  else response.end()
}
