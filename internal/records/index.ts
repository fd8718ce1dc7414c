export type { Records, RecordTenant } from './acquire.ts'
export { explainStoreError } from './answer.ts'
export { recordRoutes } from './http.ts'
export {
  type LockHistoryFilter,
  type LockHistoryPage,
  listLockHistory,
} from './list-lock-history.ts'
export {
  type LockAddress,
  type LockHistoryEntry,
  type LockNote,
  type LockState,
  lockStates,
  type NoteLock,
} from './lock-history.ts'
export {
  type DropReason,
  LockHistoryRecorder,
  type LockHistoryRecorderOptions,
  purgeLockHistory,
} from './lock-history-recorder.ts'
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
