export {
  listReplays,
  parseReplayId,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  type ReplayListRequest,
  type ReplayPage,
  type ReplayState,
  readReplay,
  replayStates,
} from './job.ts'
export { type ReplayEventRequest, type ReplayEventResult, replayEvent } from './replay-event.ts'
export {
  type CancelReplayResult,
  cancelReplay,
  previewReplay,
  type ReplayPreview,
  replayRateMax,
  type StartReplayRequest,
  type StartReplayResult,
  startReplay,
} from './start.ts'
export { forgetReplays, purgeReplays, type ReplayerOptions, type ReplayStep, startReplayer } from './step.ts'
export { replays } from './tables.ts'
