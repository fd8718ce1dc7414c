export type { Records, RecordTenant } from './acquire.ts'
export { explainStoreError } from './answer.ts'
export { recordRoutes } from './http.ts'
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
