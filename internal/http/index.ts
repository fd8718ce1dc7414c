export { type JsonObject, parseJsonObject } from './body.ts'
export { BodyBudget } from './body-budget.ts'
export { type Listening, listen, urlHost } from './listen.ts'
export { createRequestObserver, type RequestObserverOptions } from './observe.ts'
export { createOpsServer, type OpsOptions } from './ops.ts'
export { parseQuery, type Query } from './query.ts'
export type {
  Admission,
  Admitted,
  AdmittingRoute,
  Answer,
  AnswerBody,
  Call,
  GuardedRoute,
  Head,
  LogFields,
  PublicRoute,
  Route,
} from './route.ts'
export { createServer, type RequestEvent, type ServerOptions, type Traced } from './server.ts'
export { createSourceAddress, networkOf } from './source-address.ts'
export { createParser, type Parsed, quoteName } from './validate.ts'
