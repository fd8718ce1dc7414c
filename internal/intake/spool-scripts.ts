import { defineScript } from '#internal/storage/index.ts'
import append from './scripts/spool-append.lua' with { type: 'text' }
import entry from './scripts/spool-entry.lua' with { type: 'text' }
import read from './scripts/spool-read.lua' with { type: 'text' }
import release from './scripts/spool-release.lua' with { type: 'text' }
import settle from './scripts/spool-settle.lua' with { type: 'text' }
import stats from './scripts/spool-stats.lua' with { type: 'text' }

/**
 * Where the spool is; one hash tag, so one shard. `events` and `dead` are streams of entries with the fields `id`, `facts`,
 * `payload` and `tenant`, the dead ones with a `reason` first. `bytes` is a hash of what each of them holds, `tenants` one of
 * what waits for each tenant, `lease` who drains.
 */
export const spoolKeys = {
  events: '{latchkey:spool}:events',
  dead: '{latchkey:spool}:dead',
  bytes: '{latchkey:spool}:bytes',
  tenants: '{latchkey:spool}:tenants',
  lease: '{latchkey:spool}:lease',
} as const

/** The keys of the scripts that count bytes. */
export const countedKeys: readonly string[] = [
  spoolKeys.events,
  spoolKeys.dead,
  spoolKeys.bytes,
  spoolKeys.tenants,
]

/** One script for each thing that is done with the spool. */
export const spoolScripts = {
  append: defineScript('spool-append', '', [entry, append]),
  // Draining makes room, so it goes on where Redis is full.
  read: defineScript('spool-read', 'allow-oom', [entry, read]),
  settle: defineScript('spool-settle', 'allow-oom', [entry, settle]),
  release: defineScript('spool-release', 'allow-oom', [release]),
  stats: defineScript('spool-stats', 'no-writes', [entry, stats]),
} as const
