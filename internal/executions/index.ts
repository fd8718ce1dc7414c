export {
  type Execution,
  type ExecutionAddress,
  type ExecutionNote,
  type ExecutionState,
  executionStates,
  type NoteExecution,
} from './execution.ts'
export {
  type ExecutionCursor,
  type ExecutionFilter,
  type ExecutionPage,
  listExecutions,
  parseExecutionCursor,
} from './list-executions.ts'
export { type DropReason, ExecutionRecorder, type ExecutionRecorderOptions } from './recorder.ts'
