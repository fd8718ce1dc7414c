export type { ReplayTurn } from './due.ts'
export { notifyOfFinishedReplays } from './finished.ts'
export {
  listReplays,
  parseReplayId,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  type ReplayPage,
  readReplay,
  replayedOrigins,
  replayStates,
} from './job.ts'
export { countDueOutcomes, countOutcome, findReplaysOfEvent, readReplayedIds } from './outcome.ts'
export {
  isMoving,
  type ReplayEventOutcome,
  type ReplayOutcome,
  type ReplayStage,
  replayEventOutcomes,
  stageOf,
} from './progress.ts'
export { replayEvent, retryEvent } from './replay-event.ts'
export {
  cancelReplay,
  previewedEventsMax,
  previewReplay,
  type ReplayPreview,
  replayRateDefault,
  replayRateMax,
  type StartReplayResult,
  startReplay,
} from './start.ts'
export { forgetReplays, purgeReplays, type ReplayStep, stepReplays } from './step.ts'
export { replays } from './tables.ts'
