import type { Clock, TenantId } from '#internal/base/index.ts'
import { demoHeader, TerminalLines, timeOf } from '#internal/dev/index.ts'
import type { RefusedNote } from '#internal/intake/index.ts'
import type { DirectoryTenant } from '#internal/tenants/index.ts'

/** Maximum lines of refused calls a second. */
export const refusedLinesPerSecondMax = 10

/** Dependencies of `createRefusedLines`. */
export interface RefusedLinesOptions {
  readonly say: (line: string) => void
  readonly clock: Clock
  findTenant(id: TenantId): Pick<DirectoryTenant, 'slug' | 'name'> | undefined
}

/** Returns a function that prints a line for each refused call, except those of the demo: provider, cause and tenant. Never throws. */
export function createRefusedLines({ say, clock, findTenant }: RefusedLinesOptions) {
  const lines = new TerminalLines(say, clock, refusedLinesPerSecondMax)
  return ({ tenantId, provider, cause, headers }: RefusedNote): void => {
    if (headers.has(demoHeader)) return
    lines.show((nowMs) => {
      const tenant = findTenant(tenantId)
      return `${timeOf(nowMs)} ${provider} refused: ${cause} → ${tenant?.slug ?? tenant?.name ?? '?'}`
    })
  }
}
