import type { AdmittingRoute } from '#internal/http/index.ts'
import { eventRows, replayRows } from './http-events.ts'
import { executionRows, settingRows, simulationRows } from './http-operations.ts'
import { type InternalParts, type InternalRow, routeOf } from './http-row.ts'
import { tenantRows } from './http-tenants.ts'

/** Every row of the internal contract. */
export const internalRows: readonly InternalRow[] = [
  ...tenantRows,
  ...eventRows,
  ...replayRows,
  ...settingRows,
  ...simulationRows,
  ...executionRows,
]

/**
 * The routes of `/internal/v1`. Each asks by itself who calls.
 */
export function internalRoutes(parts: InternalParts): readonly AdmittingRoute<unknown>[] {
  return internalRows.map((row) => routeOf(parts, row))
}
