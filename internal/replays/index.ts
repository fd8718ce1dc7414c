export { forgetReplays } from './forget-replays.ts'
export { type ReplayEventRequest, type ReplayEventResult, replayEvent } from './replay-event.ts'
export {
  parseReplayId,
  type ReplayCount,
  type ReplayFilter,
  type ReplayId,
  type ReplayJob,
  type ReplayState,
  replayStates,
} from './replay-job.ts'
export { previewReplay, type ReplayPreview } from './replay-preview.ts'
export { listReplays, type ReplayListRequest, type ReplayPage, readReplay } from './replay-read.ts'
export type { ReplayStep } from './replay-step.ts'
export { type ReplayerOptions, startReplayer } from './replayer.ts'
export {
  type CancelReplayResult,
  cancelReplay,
  replayRateMax,
  type StartReplayRequest,
  type StartReplayResult,
  startReplay,
} from './replays.ts'
