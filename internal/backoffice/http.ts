import type { PublicRoute } from '#internal/http/index.ts'
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
 * The routes of `/internal/v1`. Each asks who calls before it reads anything else of the call; to the server they are open to anybody,
 * since what it knows of access is API keys.
 */
export function internalRoutes(parts: InternalParts): readonly PublicRoute[] {
  return internalRows.map((row) => routeOf(parts, row))
}
