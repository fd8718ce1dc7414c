export { type IdempotentOptions, idempotent } from './idempotent.ts'
export { type CompleteOptions, Latchkey } from './latchkey.ts'
export type {
  Address,
  Debug,
  Fetch,
  LatchkeyOptions,
  OnceOptions,
  Recovery,
  Tracer,
  Work,
  WorkContext,
} from './options.ts'
export {
  type Failure,
  type Json,
  LatchkeyOutcomeError,
  LatchkeyRequestError,
  nothingHappened,
  type Outcome,
  type OutcomeKind,
  type Pending,
  type StoredRecord,
  type Success,
  type UnavailableReason,
  type UnknownCommit,
  unwrap,
} from './outcome.ts'
