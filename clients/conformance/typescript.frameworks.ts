import { once } from 'node:events'
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import { Readable } from 'node:stream'
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
import { type FastifyRequest, fastify } from 'fastify'
import { type Context, Hono } from 'hono'
import * as forExpress from '../typescript/src/express.ts'
import * as forFastify from '../typescript/src/fastify.ts'
import * as forFetch from '../typescript/src/fetch.ts'
import type { IdempotencyOptions, Operation } from '../typescript/src/guard.ts'
import type { Latchkey } from '../typescript/src/index.ts'
import type { Receiver } from '../typescript/src/webhooks.ts'
import type { frameworkNames } from './app-cases.ts'

/** Response of a handler, in the terms of no framework. */
export interface Reply {
  readonly status: number
  readonly headers: Readonly<Record<string, string | readonly string[]>>
  /** Bytes of each write. */
  readonly writes: readonly Uint8Array[]
}

/** Call of a handler. */
export interface HandlerCall {
  /** Body as the handler reads it. */
  readonly body: string
  /** Value of the header `x-handler`. */
  readonly script: string
  readonly operation: Operation | undefined
}

/** Parts of an app. */
export interface AppOptions {
  readonly latchkey: Latchkey
  readonly guard: Omit<IdempotencyOptions<readonly unknown[]>, 'principal'>
  /** Whether callers have no names. By default the header `x-user` names them. */
  readonly isAnonymous: boolean
  /** Handler of `/charges`, `/orders/:id` and `/events`. */
  handle(call: HandlerCall): Promise<Reply>
  /** Receiver at `/hook`. */
  readonly receive?: Receiver
}

/** Running server. */
export interface App {
  readonly url: string
  close(): Promise<unknown>
}

const methods = ['GET', 'POST', 'PUT', 'PATCH'] as const
const paths = ['/charges', '/orders/:id', '/events']

/** Functions that serve an app with a framework. Those of the Fetch API need Bun. */
export const servers: Readonly<
  Record<(typeof frameworkNames)['bun' | 'node'][number], (options: AppOptions) => Promise<App>>
> = {
  'Fetch API': async (options) => {
    const guarded = guardFetch(options)
    return serveWeb((request) =>
      options.receive && new URL(request.url).pathname === '/hook'
        ? options.receive(request)
        : guarded(request),
    )
  },
  Hono: async ({ latchkey, guard, isAnonymous, handle, receive }) => {
    const app = new Hono()
    app.onError(() => new Response('error', { status: 500 }))
    const principal = isAnonymous ? 'none' : (context: Context) => context.req.header('x-user') ?? ''
    const middleware = forFetch.idempotency(latchkey, { ...guard, principal })
    for (const path of paths)
      app.on([...methods], path, middleware, async (context) => {
        const { req } = context
        const operation = forFetch.operationOf(req.raw)
        const script = req.header('x-handler') ?? ''
        return webResponse(await handle({ body: await req.text(), script, operation }))
      })
    if (receive) app.post('/hook', (context) => receive(context.req.raw))
    return serveWeb((request) => app.fetch(request))
  },
  Elysia: async (options) => {
    const { receive } = options
    const guarded = guardFetch(options)
    const app = new Elysia()
    for (const path of paths) app.all(path, ({ request }) => guarded(request), { parse: 'none' })
    if (receive) app.post('/hook', ({ request }) => receive(request), { parse: 'none' })
    return serveWeb((request) => app.handle(request))
  },
  'Express 5': (options) => serveExpress(express(), 'after', options),
  'Express 5, parser first': (options) => serveExpress(express(), 'before', options),
  'Express 4': (options) => serveExpress(express4() as Express, 'after', options),
  'Express 4, parser first': (options) => serveExpress(express4() as Express, 'before', options),
  Fastify: async ({ latchkey, guard, isAnonymous, handle, receive }) => {
    const app = fastify({ forceCloseConnections: true, bodyLimit: 4 * 1024 * 1024 })
    const principal = isAnonymous ? 'none' : ({ headers }: FastifyRequest) => String(headers['x-user'] ?? '')
    await app.register(async (routes) => {
      // Passes the body to handlers as text, as the other frameworks do.
      routes.addContentTypeParser('application/json', { parseAs: 'string' }, (_request, body, done) =>
        done(null, body),
      )
      await routes.register(forFastify.idempotency(latchkey, { ...guard, principal }))
      for (const url of paths)
        routes.route({
          method: [...methods],
          url,
          handler: async (request, reply) => {
            const { status, headers, writes } = await handle({
              body: String(request.body ?? ''),
              script: String(request.headers['x-handler']),
              operation: forFastify.operationOf(request),
            })
            reply.code(status)
            for (const [name, value] of Object.entries(headers)) reply.header(name, value)
            return reply.send(writes.length > 1 ? Readable.from(writes) : writes[0] && Buffer.from(writes[0]))
          },
        })
    })
    if (receive) await app.register(forFastify.fastifyReceiver(receive, '/hook'))
    return { url: await app.listen({ port: 0, host: '127.0.0.1' }), close: () => app.close() }
  },
}

function guardFetch({
  latchkey,
  guard,
  isAnonymous,
  handle,
}: AppOptions): (request: Request) => Promise<Response> {
  const principal = isAnonymous ? 'none' : (request: Request) => request.headers.get('x-user') ?? ''
  return forFetch.idempotent(latchkey, { ...guard, principal }, async (request) => {
    return webResponse(
      await handle({
        body: await request.text(),
        script: request.headers.get('x-handler') ?? '',
        operation: forFetch.operationOf(request),
      }),
    )
  })
}

function webResponse({ status, headers, writes }: Reply): Response {
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    [value].flat().map((each) => [name, each] as [string, string]),
  )
  const [first, ...others] = writes
  const body = others.length > 0 ? streamOf(writes) : first ? Buffer.from(first) : null
  return new Response(body, { status, headers: pairs })
}

function streamOf(writes: readonly Uint8Array[]): ReadableStream<Uint8Array> {
  const rest = [...writes]
  return new ReadableStream({
    pull(controller) {
      const bytes = rest.shift()
      if (bytes) controller.enqueue(bytes)
      else controller.close()
    },
  })
}

async function serveWeb(fetch: (request: Request) => Response | Promise<Response>): Promise<App> {
  const error = () => new Response('error', { status: 500 })
  const server = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch, error })
  return { url: `http://127.0.0.1:${server.port}`, close: () => server.stop(true) }
}

async function serveExpress(app: Express, parsed: 'before' | 'after', options: AppOptions): Promise<App> {
  const { latchkey, isAnonymous, handle, receive } = options
  const principal = isAnonymous ? 'none' : (request: ExpressRequest) => request.get('x-user') ?? ''
  const guard = forExpress.idempotency(latchkey, { ...options.guard, principal })
  const limit = '4mb'
  const respond = async (request: ExpressRequest, response: ExpressResponse, next: NextFunction) => {
    try {
      const body = typeof request.body === 'string' ? request.body : ''
      const operation = forExpress.operationOf(request)
      const script = request.get('x-handler') ?? ''
      writeReply(response, await handle({ body, script, operation }))
    } catch (error) {
      next(error)
    }
  }
  const handler: RequestHandler = (...args) => void respond(...args)
  const parser = express.text({ type: '*/*', limit })
  for (const path of paths)
    app.all(path, ...(parsed === 'before' ? [parser, guard] : [guard, parser]), handler)
  if (receive) {
    const before = parsed === 'before' ? [express.raw({ type: '*/*', limit })] : []
    app.post('/hook', ...before, forExpress.expressReceiver(receive))
  }
  app.use((_error: unknown, _request: IncomingMessage, response: ServerResponse, _next: unknown) => {
    response.statusCode = 500
    response.end('error')
  })
  const server: Server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return {
    url: `http://127.0.0.1:${typeof address === 'object' ? address?.port : 0}`,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function writeReply(response: ExpressResponse, { status, headers, writes }: Reply): void {
  response.status(status)
  for (const [name, value] of Object.entries(headers)) response.setHeader(name, value)
  if (writes.length === 1 && writes[0]) response.send(Buffer.from(writes[0]))
  else {
    for (const bytes of writes) response.write(bytes)
    response.end()
  }
}
