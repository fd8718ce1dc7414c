// Behaviour specific to servers of node:http: middleware that changes the response, and callers that hang up.
import { afterAll, afterEach, beforeAll, expect, test } from 'bun:test'
import { once } from 'node:events'
import type { Server } from 'node:http'
import { connect } from 'node:net'
import express, { type RequestHandler } from 'express'
import { poll } from '../../../internal/dev/index.ts'
import { startTestApi, type TestApi, testApiKey } from '../../../test/support/api.ts'
import { idempotency } from './express.ts'
import { Latchkey } from './index.ts'

let api: TestApi
let latchkey: Latchkey
let server: Server
beforeAll(async () => {
  api = await startTestApi()
  latchkey = new Latchkey({ url: api.url, apiKey: testApiKey })
})
afterEach(async () => {
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})
afterAll(() => api.close())

/** Serves POST /charges by these handlers, and returns its port. */
async function serve(...handlers: RequestHandler[]): Promise<number> {
  const app = express()
  app.post('/charges', ...handlers)
  app.use(((_error, request, response, next) => {
    if (response.headersSent) return next()
    if (request.destroyed) return void response.end()
    response.status(500).set('x-error', 'yes').send('error')
  }) as express.ErrorRequestHandler)
  server = app.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  return typeof address === 'object' ? (address?.port ?? 0) : 0
}

function post(port: number, key: string, body = '{"b":1,"a":[1.50]}') {
  const headers = { 'content-type': 'application/json', 'idempotency-key': key }
  return fetch(`http://127.0.0.1:${port}/charges`, { method: 'POST', headers, body })
}

const guard = () => idempotency(latchkey, { principal: 'none', lockSeconds: 1 })
const newKey = () => `"${crypto.randomUUID()}"`
const json = express.json()

const orders: [what: string, before: RequestHandler[], after: RequestHandler[]][] = [
  ['before', [json], []],
  ['after', [], [json]],
]
test.each(orders)(
  'express: with express.json %s the guard, the handler gets the parsed body',
  async (_what, before, after) => {
    const port = await serve(
      ...before,
      guard(),
      ...after,
      (request, response) => void response.json(request.body),
    )
    const key = newKey()
    expect(await (await post(port, key)).json()).toEqual({ b: 1, a: [1.5] })
    expect((await post(port, key)).headers.get('idempotent-replayed')).toBe('true')
    expect((await post(port, key, '{"b":2}')).status).toBe(422)
  },
)

const writers: [what: string, write: RequestHandler][] = [
  [
    'writeHead with an object',
    (_request, response) => void response.writeHead(201, 'Made', { Location: '/1' }).end('done'),
  ],
  [
    'writeHead with an array',
    (_request, response) => void response.writeHead(201, ['Location', '/1']).end('done'),
  ],
  [
    'writes with encodings and callbacks',
    (_request, response) => {
      response.status(201).setHeader('location', '/1')
      response.write('ZG8=', 'base64', () => response.end('6e65', 'hex'))
    },
  ],
]
test.each(writers)('express: a response sent by %s is saved', async (_what, write) => {
  const port = await serve(guard(), write)
  const key = newKey()
  for (const replayed of [null, 'true']) {
    const response = await post(port, key)
    expect([response.status, response.headers.get('location'), await response.text()]).toEqual([
      201,
      '/1',
      'done',
    ])
    expect(response.headers.get('idempotent-replayed')).toBe(replayed)
  }
})

test('express: middleware before the guard changes the response that is sent, but not the saved response', async () => {
  const addCookie: RequestHandler = (_request, response, next) => {
    const { writeHead } = response
    response.writeHead = ((...args: Parameters<typeof writeHead>) => {
      response.setHeader('set-cookie', 'session=1')
      return Reflect.apply(writeHead, response, args)
    }) as typeof writeHead
    next()
  }
  const port = await serve(addCookie, guard(), (_request, response) => void response.send('done'))
  const key = newKey()
  for (const replayed of [null, 'true']) {
    const response = await post(port, key)
    expect(response.headers.getSetCookie()).toEqual(['session=1'])
    expect(response.headers.get('idempotent-replayed')).toBe(replayed)
  }
  const record = await latchkey.fetchRecord({ scope: 'POST /charges', key: `-:${key.slice(1, -1)}` })
  expect(Object.keys(record?.headers ?? {})).not.toContain('set-cookie')
})

test('express: all cookies of writeHead with an array reach the caller', async () => {
  const port = await serve(guard(), (_request, response) => {
    response.writeHead(201, ['Set-Cookie', 'a=1', 'set-cookie', 'b=2']).end('done')
  })
  expect((await post(port, newKey())).headers.getSetCookie()).toEqual(['a=1', 'b=2'])
})

test('express: a second response of a handler is ignored, and its headers are not sent', async () => {
  const port = await serve(guard(), (_request, response) => {
    response.status(201).send('first')
    expect(response.headersSent).toBe(true)
    response.statusCode = 500
    response.setHeader('x-error', 'yes')
    response.end('second')
  })
  const key = newKey()
  for (let count = 0; count < 2; count += 1) {
    const response = await post(port, key)
    expect([response.status, await response.text(), response.headers.get('x-error')]).toEqual([
      201,
      'first',
      null,
    ])
  }
})

test('express: a response whose headers are flushed early is streamed to the caller and not saved', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const port = await serve(guard(), (_request, response) => {
    response.flushHeaders()
    void promise.then(() => response.end('done'))
  })
  const key = newKey()
  const response = await post(port, key)
  resolve()
  expect(await response.text()).toBe('done')
  expect((await (await post(port, key)).json()) as object).toMatchObject({
    code: 'idempotency_response_not_kept',
  })
})

/** Sends a request and hangs up without its response. */
async function hangUp(port: number, key: string, started: Promise<void>) {
  const socket = connect({ port, host: '127.0.0.1' })
  socket.write(`POST /charges HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nIdempotency-Key: ${key}\r\n\r\n{}`)
  await started
  socket.destroy()
}

test('express: the response of a handler is saved even if the caller has disconnected', async () => {
  const { promise: started, resolve: start } = Promise.withResolvers<void>()
  const port = await serve(guard(), (request, response) => {
    start()
    request.socket.on('close', () => response.send('done'))
  })
  const key = newKey()
  await hangUp(port, key, started)
  const again = await poll(
    async () => {
      const response = await post(port, key, '{}')
      return response.headers.get('idempotent-replayed') === 'true' ? response : undefined
    },
    { deadlineMs: 10_000 },
  )
  expect(await again?.text()).toBe('done')
})

test('express: a handler that never responds to a disconnected caller loses its lock', async () => {
  const { promise: started, resolve: start } = Promise.withResolvers<void>()
  const port = await serve(guard(), () => start())
  const key = newKey()
  await hangUp(port, key, started)
  const response = await post(port, key, '{}')
  expect((await response.json()) as object).toMatchObject({ code: 'idempotency_outcome_unknown' })
})

test('express: a handler that never responds to a caller that disconnected before the handler started loses its lock', async () => {
  const { promise: started, resolve: start } = Promise.withResolvers<void>()
  const { promise: called, resolve: begin } = Promise.withResolvers<void>()
  const principal = async (request: express.Request) => {
    if (request.headers['content-type'] === undefined) {
      start()
      await once(request.socket, 'close')
    }
    return 'ada'
  }
  const late = idempotency(latchkey, { principal, lockSeconds: 1, waitMs: 4000 })
  const port = await serve(json, late, () => begin())
  const key = newKey()
  await hangUp(port, key, started)
  await called
  const response = await post(port, key, '{}')
  expect((await response.json()) as object).toMatchObject({ code: 'idempotency_outcome_unknown' })
})

test('express: a handler may still respond after its lock was released because the caller disconnected', async () => {
  const { promise: started, resolve: start } = Promise.withResolvers<void>()
  const { promise: responded, resolve: respond } = Promise.withResolvers<unknown>()
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const port = await serve(guard(), (_request, response) => {
    start()
    void released.then(() => {
      try {
        response.send('done')
        respond(undefined)
      } catch (error) {
        respond(error)
      }
    })
  })
  const key = newKey()
  await hangUp(port, key, started)
  await (await post(port, key, '{}')).text()
  release()
  expect(await responded).toBeUndefined()
})
