import { type Static, Type } from '@sinclair/typebox'
import { readAreas } from './cases.ts'
import { callCounts, faultScript } from './fault-proxy.ts'
import { anyFields, closed, oneOf } from './schema.ts'

/** Frameworks and ways of use that run the cases of middleware and receivers, as columns of the matrix, by the runtime of their apps. */
export const frameworkNames = {
  bun: ['Fetch API', 'Hono', 'Elysia'],
  node: ['Express 5', 'Express 5, parser first', 'Express 4', 'Express 4, parser first', 'Fastify'],
  python: ['Starlette', 'FastAPI', 'ASGI'],
} as const
/** Runtime of apps. */
export type Runtime = keyof typeof frameworkNames
/** Framework and way of use. */
export type Framework = (typeof frameworkNames)[Runtime][number]

const text = Type.Optional(Type.String())
const flag = Type.Optional(Type.Literal(true))
const integer = Type.Optional(Type.Integer())
const oneOrMore = Type.Union([Type.String(), Type.Array(Type.String())])

/** Instructions for a handler of an app. */
export type HandlerScript = Static<typeof handlerScript>
const handlerScript = closed({
  /** Default 200. */
  status: integer,
  headers: Type.Optional(Type.Record(Type.String(), oneOrMore)),
  /** Body. It can contain `{run}`, `{body}` and `{takenOver}`, which is false without an operation. */
  text,
  /** Body as base64. */
  base64: text,
  /** Repeats the body; for long ones. */
  times: integer,
  /** Number of times that the body is written. */
  writes: integer,
  /** Waits for the step `finish` before the response. */
  hold: flag,
  /** Declares that nothing happened, before the response. */
  nothingHappened: flag,
  /** Throws an exception instead of the response. */
  throws: Type.Optional(oneOf(['error', 'nothingHappened'])),
  /** Rejects the event; for receivers. */
  rejects: Type.Optional(oneOf(['gone', 'disable', 'abort'])),
  /** Catches the exception of `rejects`, and returns. */
  catches: flag,
})

/** Request to a guarded route. */
export type AppRequest = Static<typeof appRequest>
const appRequest = closed({
  /** Default POST. */
  method: text,
  /** Default `/charges`. `/orders/1` and `/events` exist, too. */
  path: text,
  body: text,
  /** Values of `Idempotency-Key`, each in a header of its own; none for null. `{id}` is that of the case. Default `"{id}"`. */
  key: Type.Optional(Type.Union([oneOrMore, Type.Null()])),
  /** Caller; `ada` by default. */
  user: text,
})

/** Delivery to the receiver. */
export type AppDelivery = Static<typeof appDelivery>
const appDelivery = closed({
  /** Secret that signs: one of the two of the receiver, or another. */
  secret: Type.Optional(oneOf(['first', 'second', 'other'])),
  ageSeconds: integer,
  /** Change after the signature. */
  change: Type.Optional(oneOf(['body', 'no signature', 'malformed signature'])),
  /** Signed body instead of an event. */
  body: text,
  /** Bytes that are added to the event's payload. */
  padding: integer,
})

/** Expected response. Members that are absent are not compared. */
export type ExpectedResponse = Static<typeof expectedResponse>
const expectedResponse = closed({
  status: integer,
  text,
  base64: text,
  /** Bytes of the body. */
  bytes: integer,
  /** Code of a problem, whose shape is then compared, too. */
  code: text,
  /** Text in the detail of a problem. */
  detail: text,
  replayed: Type.Optional(Type.Boolean()),
  /** Null for a header that is absent. */
  headers: Type.Optional(Type.Record(Type.String(), Type.Union([Type.String(), Type.Null()]))),
  cookies: Type.Optional(Type.Array(Type.String())),
  /** Maximum milliseconds of the call. */
  msMax: integer,
})

const request = { request: appRequest, handler: Type.Optional(handlerScript) }
const delivery = { deliver: appDelivery, handler: Type.Optional(handlerScript) }
/** With `eventually` the call is repeated until the response is as expected. */
const compared = { expect: expectedResponse, eventually: flag }
/** Names the call and goes on with the next step while it runs. */
const started = { start: Type.String() }

/** Step of a case. */
export type AppStep = Static<typeof step>
const step = Type.Union([
  closed({ ...request, ...compared }),
  closed({ ...request, ...started }),
  closed({ ...delivery, ...compared }),
  closed({ ...delivery, ...started }),
  /** Several equal requests at the same time, with the same expected response. */
  closed({ together: Type.Integer(), request: appRequest, expect: expectedResponse }),
  /** Waits for a call that was started. */
  closed({ join: Type.String(), expect: expectedResponse }),
  closed({ faults: faultScript }),
  /** Waits until so many calls of the library have reached the proxy since the case began. */
  closed({ until: callCounts }),
  /** Waits until the handler was called so often. */
  closed({ untilRuns: Type.Integer() }),
  /** Waits until a transaction of the case waits for the lock of another one. */
  closed({ untilBlocked: Type.Literal(true) }),
  /** Lets handlers that hold go on. */
  closed({ finish: Type.Literal(true) }),
  /** Call of another program, straight to the service. The key is that of the case, without a principal, or the event's id. */
  closed({ other: oneOf(['save', 'remove']), scope: Type.String(), with: Type.Optional(anyFields) }),
])

/** Ways in which a receiver deduplicates events. */
export type Deduplication = Static<typeof deduplication>
const deduplication = oneOf(['records', 'transaction', 'none'])

const allFrameworks = [...frameworkNames.bun, ...frameworkNames.node, ...frameworkNames.python]
const base = {
  name: Type.String(),
  /** Frameworks that cannot do it. */
  notFor: Type.Optional(Type.Array(oneOf([...allFrameworks, 'Express']))),
  /** Default for all steps. */
  handler: Type.Optional(handlerScript),
  steps: Type.Array(step),
  /** Number of times that the handler was called. */
  runs: Type.Integer(),
}

/** Options of the middleware, in the names of TypeScript. */
export type GuardOptions = Static<typeof guardOptions>
const guardOptions = closed({
  principal: Type.Optional(Type.Literal('none')),
  /** Responses with a lower status are saved: the option `save`. */
  savedBelow: integer,
  scope: text,
  methods: Type.Optional(Type.Array(Type.String())),
  required: Type.Optional(Type.Boolean()),
  acceptUnquoted: Type.Optional(Type.Boolean()),
  requestBytesMax: integer,
  responseBytesMax: integer,
  headersKept: Type.Optional(Type.Array(Type.String())),
  ttlSeconds: integer,
  waitMs: integer,
  acquireMs: integer,
  saveMs: integer,
  onTakenOver: Type.Optional(oneOf(['refuse', 'run'])),
  onUnavailable: Type.Optional(oneOf(['refuse', 'run'])),
})

/** Options of a receiver, in the names of TypeScript. */
export type ReceiverOptions = Static<typeof receiverOptions>
const receiverOptions = closed({ name: text, bodyBytesMax: integer })

/** Case of a guarded route. */
export type MiddlewareCase = Static<typeof middlewareCase>
const middlewareCase = closed({ ...base, options: Type.Optional(guardOptions) })

/** Case of a receiver. */
export type ReceiverCase = Static<typeof receiverCase>
const receiverCase = closed({
  ...base,
  options: Type.Optional(receiverOptions),
  /** Default: by records and by a transaction. */
  by: Type.Optional(Type.Array(deduplication)),
  /** Events that are handled in the end. Default: `runs`. */
  handled: integer,
})

/** Cases of guarded routes by area. */
export const middlewareAreas = readAreas('middleware', middlewareCase)
/** Cases of receivers by area. */
export const receiverAreas = readAreas('receiver', receiverCase)

/** Returns how the receiver of a case deduplicates. */
export function deduplicationsOf({
  by = ['records', 'transaction'],
}: ReceiverCase): readonly Deduplication[] {
  return by
}
