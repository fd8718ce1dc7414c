export type { Records } from './acquire.ts'
export { explainStoreError, recordRoutes } from './http.ts'
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
