export { BodyBudget } from './body-budget.ts'
export { createOpsServer, type Listening, listen, type OpsOptions, urlHost } from './listen.ts'
export { createRequestObserver, type RequestObserverOptions } from './observe.ts'
export {
  type AnswerDoc,
  bindRoutes,
  createCallParser,
  type Documented,
  type Example,
  type Examples,
  errorSchemaOf,
  type JsonSchema,
  type LimitsInDocument,
  mayGrow,
  named,
  type Operation,
  type Parameter,
  type ParsedCall,
  publicErrorCodes,
  type RequestBody,
  type RoomRoute,
  route,
} from './operation.ts'
export {
  idempotencyKeyParam,
  integerParam,
  oneOf,
  type Param,
  type Params,
  type ParamValues,
  paramsInDocument,
  plainText,
  plainTextForm,
  readIdempotencyKey,
  readParams,
  textParam,
  wordParam,
} from './params.ts'
export {
  createParser,
  expectation,
  type Parsed,
  parseJsonObject,
  parseQuery,
  type Query,
  quoteName,
  repeatedField,
} from './parse.ts'
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
export {
  createErrorLinks,
  createServer,
  type RequestEvent,
  routeUnknown,
  type ServerOptions,
} from './server.ts'
export { createSourceAddress, networkOf } from './source-address.ts'
export { acceptsGzip, type StaticBody, staticAnswer, staticBody } from './static-body.ts'
