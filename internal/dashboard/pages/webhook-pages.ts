import type { ActionRow, PageRow } from '../page.ts'
import { eventRow } from './event.tsx'
import { revealRow } from './event-payload.tsx'
import { askReplayRow, replayEventRow } from './event-replay.tsx'
import { eventsRow } from './events.tsx'
import { refusedRow } from './refused.tsx'
import { askCancelRow, cancelReplayRow, replayRow } from './replay.tsx'
import { newReplayRow, previewReplayRow, startReplayRow } from './replay-start.tsx'
import { replaysRow } from './replays.tsx'

/** Events, refused calls and replays. What has a name of its own stands before what has a parameter there. */
export const webhookPages: readonly (PageRow | ActionRow)[] = [
  ...[eventsRow, eventRow, revealRow, askReplayRow, replayEventRow],
  refusedRow,
  ...[replaysRow, startReplayRow, newReplayRow, previewReplayRow, replayRow, askCancelRow, cancelReplayRow],
]
