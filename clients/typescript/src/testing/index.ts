export type { TestRecord, TestState } from './records.ts'
export { type SignedEvent, type SignedEventOptions, signedEvent } from './signed-event.ts'
export { type TestFailure, type TestOperation, TestServer, type TestServerOptions } from './test-server.ts'
