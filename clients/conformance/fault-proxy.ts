import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { setTimeout as pause } from 'node:timers/promises'
import { type Static, type TSchema, Type } from '@sinclair/typebox'
import { poll } from '#internal/dev/index.ts'
import { closed, oneOf } from './schema.ts'

/** Calls of the service. `release` is a removal with a lock token. */
const operations = ['acquire', 'save', 'extend', 'release', 'remove', 'fetch'] as const
const busyMsMax = 10_000
const busyPauseMs = 100
const callsMsMax = 10_000

type Operation = (typeof operations)[number]

const fault = Type.Union([
  oneOf(['pass', 'call_lost', 'answer_lost', 'answer_cut', 'no_answer', 'answer_withheld']),
  closed({ delayMs: Type.Number() }),
  closed({
    status: Type.Integer(),
    code: Type.Optional(Type.String()),
    retryAfterSeconds: Type.Optional(Type.Number()),
    contentType: Type.Optional(Type.String()),
    body: Type.Optional(Type.String()),
    /** Repeats the body; for long answers. */
    bodyTimes: Type.Optional(Type.Integer()),
  }),
])

/**
 * Fault of one call. The connection is closed before the call reaches the service (`call_lost`), after the service answered (`answer_lost`),
 * or in the middle of the answer's body (`answer_cut`). `no_answer` keeps the connection open without an answer, and the call does not reach
 * the service; `answer_withheld` does the same after the service answered. `delayMs` delays the answer. With `status`, the call does not
 * reach the service, and gets this answer; with `code`, in the service's envelope.
 */
export type Fault = Static<typeof fault>

const oneOrMore = Type.Union([fault, closed({ fault, times: Type.Integer() })])

/** Schema of faults by operation. Each fault is that of one call, or of `times` calls; afterwards calls pass. */
export const faultScript = Type.Partial(byOperation(Type.Array(oneOrMore)))
/** Faults by operation. */
export type FaultScript = Static<typeof faultScript>

/** Schema of numbers of calls by operation. */
export const callCounts = Type.Partial(byOperation(Type.Integer()))
/** Numbers of calls by operation. */
export type CallCounts = Static<typeof callCounts>

function byOperation<Schema extends TSchema>(schema: Schema) {
  return closed(Object.fromEntries(operations.map((name) => [name, schema])) as Record<Operation, Schema>)
}

/** HTTP proxy before a service, on a free port. */
export interface FaultProxy extends AsyncDisposable {
  readonly url: string
  /** Calls so far, by operation. */
  readonly counts: Readonly<Record<Operation, number>>
  /** Replaces the faults of further calls. */
  script(faults: FaultScript): void
  /** Waits until so many calls have come; at most 10 s. */
  until(calls: CallCounts): Promise<void>
}

/** Starts a proxy before the service at `target`. The caller disposes it. */
export async function startFaultProxy(target: string): Promise<FaultProxy> {
  const counts = Object.fromEntries(operations.map((operation) => [operation, 0])) as Record<
    Operation,
    number
  >
  let queues: Partial<Record<Operation, Fault[]>> = {}
  const closed = new AbortController()
  const server = createServer((request, response) => {
    const operation = operationOf(request)
    counts[operation] += 1
    const fault = queues[operation]?.shift() ?? 'pass'
    // Treats a broken upstream like a lost answer.
    answer(target, fault, { request, response, closed: closed.signal }).catch(() => response.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  return {
    url: `http://127.0.0.1:${address !== null && typeof address === 'object' ? address.port : 0}`,
    counts,
    script(faults) {
      queues = Object.fromEntries(
        Object.entries(faults).map(([operation, list]) => [operation, list.flatMap(repeated)]),
      )
    },
    async until(calls) {
      const isReached = () =>
        operations.every((operation) => counts[operation] >= (calls[operation] ?? 0)) || undefined
      if (!(await poll(isReached, { deadlineMs: callsMsMax })))
        throw new Error(`the calls did not come: ${JSON.stringify({ calls, counts })}`)
    },
    async [Symbol.asyncDispose]() {
      closed.abort()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function repeated(one: Fault | { readonly fault: Fault; readonly times: number }): Fault[] {
  return typeof one === 'object' && 'fault' in one ? new Array<Fault>(one.times).fill(one.fault) : [one]
}

function operationOf({ method, url = '' }: IncomingMessage): Operation {
  const { pathname, searchParams } = new URL(url, 'http://localhost')
  if (method === 'PUT') return 'save'
  if (method === 'GET') return 'fetch'
  if (method === 'DELETE') return searchParams.has('lockToken') ? 'release' : 'remove'
  return pathname.endsWith('/extend') ? 'extend' : 'acquire'
}

interface Exchange {
  readonly request: IncomingMessage
  readonly response: ServerResponse
  readonly closed: AbortSignal
}

async function answer(target: string, fault: Fault, { request, response, closed }: Exchange): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  // Applies no fault if the caller gave up, because a fault that is scripted later is meant for another call.
  if (request.socket.destroyed) return
  if (fault === 'no_answer') return
  if (fault === 'call_lost') return void request.socket.destroy()
  if (typeof fault === 'object' && 'status' in fault) return sendFault(fault, response)
  const hungUp = new AbortController()
  response.on('close', () => hungUp.abort())
  const { host: _host, connection: _connection, 'content-length': _length, ...headers } = request.headers
  const call = () =>
    fetch(`${target}${request.url ?? ''}`, {
      method: request.method ?? 'GET',
      headers: headers as Record<string, string>,
      signal: AbortSignal.any([hungUp.signal, closed]),
      ...(chunks.length > 0 && { body: Buffer.concat(chunks) }),
    })
  const upstream = await answered(call)
  const body = Buffer.from(await upstream.arrayBuffer())
  if (fault === 'answer_withheld') return
  if (fault === 'answer_lost') return void request.socket.destroy()
  if (typeof fault === 'object') await pause(fault.delayMs, undefined, { signal: closed })
  const kept = [...upstream.headers].filter(
    ([name]) => !/^(connection|content-length|transfer-encoding)$/.test(name),
  )
  response.writeHead(upstream.status, {
    ...Object.fromEntries(kept),
    'content-length': body.length,
    connection: 'close',
  })
  if (fault !== 'answer_cut') return void response.end(body)
  response.write(body.subarray(0, body.length >> 1), () => request.socket.destroy())
}

/**
 * Repeats a call while the service answers 503, which it does on a busy machine: only the script decides which faults a case has. At most 10 s.
 */
export async function answered(call: () => Promise<Response>): Promise<Response> {
  const untilMs = performance.now() + busyMsMax
  for (;;) {
    const response = await call()
    if (response.status !== 503 || performance.now() > untilMs) return response
    await pause(busyPauseMs)
  }
}

function sendFault(fault: Extract<Fault, { status: number }>, response: ServerResponse): void {
  const {
    status,
    code,
    retryAfterSeconds,
    contentType = 'application/json',
    body = '',
    bodyTimes = 1,
  } = fault
  const message = 'Answered by the fault proxy'
  const envelope = JSON.stringify({ message, error: 'Error', statusCode: status, code, requestId: 'proxy' })
  response.writeHead(status, {
    'content-type': contentType,
    connection: 'close',
    ...(retryAfterSeconds !== undefined && { 'retry-after': String(retryAfterSeconds) }),
  })
  response.end(code === undefined ? body.repeat(bodyTimes) : envelope)
}
