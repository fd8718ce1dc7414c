import type { ActionRow, PageRow } from '../page.ts'
import { attemptRow } from './attempt.tsx'
import { auditRow } from './audit.tsx'
import { callbackRows } from './callback.tsx'
import { eventRows } from './event.tsx'
import { eventTypeRows } from './event-types.tsx'
import { eventFields, eventsRow } from './events.tsx'
import { jumpRow } from './jump.tsx'
import { lockHistoryRow } from './lock-history.tsx'
import { overviewRow } from './overview.tsx'
import { payloadSearchRows } from './payload-search.tsx'
import { refusedRow } from './refused.tsx'
import { replayStartRows } from './replay-start.tsx'
import { replayRows, replaysRow } from './replays.tsx'
import { savedViewRows } from './saved-views.tsx'
import { settingRows } from './settings.tsx'
import { simulationRows } from './simulations.tsx'
import { tenantRow } from './tenant.tsx'
import { tenantListRows } from './tenants.tsx'
import { usageRows } from './usage.tsx'
import { verifyCallRows } from './verify-call.tsx'

/** All pages and actions. A path with a literal segment must come before one with a parameter in its place. */
export const pages: readonly (PageRow | ActionRow)[] = [
  overviewRow,
  eventsRow,
  ...payloadSearchRows,
  ...savedViewRows(eventFields),
  ...eventRows,
  attemptRow,
  refusedRow,
  ...verifyCallRows,
  replaysRow,
  ...replayStartRows,
  ...replayRows,
  ...tenantListRows,
  tenantRow,
  ...callbackRows,
  ...usageRows,
  ...simulationRows,
  ...eventTypeRows,
  lockHistoryRow,
  ...settingRows,
  auditRow,
  jumpRow,
]
