import type { TenantSpec } from './model.ts'

/** How long data is kept, in days from its receipt. */
export interface RetentionDays {
  readonly payloadDays: number
  /** Of events and attempts; not fewer than `payloadDays`. */
  readonly eventDays: number
}

/**
 * How long a tenant's data is kept: as its own spec has it, and by the platform's defaults where that leaves it open. Where the two
 * contradict, the tenant's own word counts. Pure.
 */
export function retentionOf(own: TenantSpec['retention'], defaults: RetentionDays): RetentionDays {
  const eventDays = own.eventDays ?? Math.max(defaults.eventDays, own.payloadDays ?? 0)
  return { payloadDays: Math.min(own.payloadDays ?? defaults.payloadDays, eventDays), eventDays }
}
