export type { Records, RecordTenant } from './acquire.ts'
export { explainStoreError } from './answer.ts'
export { recordRoutes } from './http.ts'
export {
  type ExecutionFilter,
  type ExecutionPage,
  listExecutions,
} from './list-lock-history.ts'
export {
  type Execution,
  type ExecutionAddress,
  type ExecutionNote,
  type ExecutionState,
  executionStates,
  type NoteExecution,
} from './lock-history.ts'
export { type DropReason, ExecutionRecorder, type ExecutionRecorderOptions } from './lock-history-recorder.ts'
export type { CheckOutcome } from './record.ts'
export {
  BatchCheck,
  BatchRequest,
  batchChecksMax,
  CheckRequest,
  ExtendRequest,
  FetchQuery,
  RemoveQuery,
  SaveRequest,
} from './requests.ts'
export { RecordStore } from './store.ts'
export { Waiters } from './wait.ts'
