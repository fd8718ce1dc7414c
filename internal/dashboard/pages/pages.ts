import type { ActionRow, PageRow } from '../page.ts'
import { auditRow } from './audit.tsx'
import { askResumeRow, askTestRow, resumeRow, testRow } from './callback.tsx'
import { executionsRow } from './executions.tsx'
import { goRow } from './go.ts'
import { overviewRow } from './overview.tsx'
import { askClearRow, clearRow, settingFormRow, settingRow } from './setting-change.tsx'
import { settingsRow } from './settings.tsx'
import { advanceRow, askCancelRow, cancelRow, simulationRow } from './simulation.tsx'
import { startFormRow, startRow } from './simulation-start.tsx'
import { simulationsRow } from './simulations.tsx'
import { tenantRow } from './tenant.tsx'
import { tenantsRow } from './tenants.tsx'
import { usageRow } from './usage.tsx'
import { askClearOverrideRow, clearOverrideRow, overrideFormRow, overrideRow } from './usage-override.tsx'
import { webhookPages } from './webhook-pages.ts'

/** Every page and every form, one row each. */
export const pages: readonly (PageRow | ActionRow)[] = [
  overviewRow,
  goRow,
  ...webhookPages,
  tenantsRow,
  tenantRow,
  askTestRow,
  testRow,
  askResumeRow,
  resumeRow,
  usageRow,
  overrideFormRow,
  overrideRow,
  askClearOverrideRow,
  clearOverrideRow,
  simulationsRow,
  startFormRow,
  startRow,
  simulationRow,
  advanceRow,
  askCancelRow,
  cancelRow,
  executionsRow,
  settingsRow,
  settingFormRow,
  settingRow,
  askClearRow,
  clearRow,
  auditRow,
]
