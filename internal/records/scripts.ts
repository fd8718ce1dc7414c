import { defineScript } from '#internal/storage/index.ts'
import { clockLua, meterLua } from '#internal/usage/index.ts'
import acquire from './scripts/acquire.lua' with { type: 'text' }
import acquireHit from './scripts/acquire-hit.lua' with { type: 'text' }
import entry from './scripts/entry.lua' with { type: 'text' }
import extend from './scripts/extend.lua' with { type: 'text' }
import fetch from './scripts/fetch.lua' with { type: 'text' }
import remove from './scripts/remove.lua' with { type: 'text' }
import save from './scripts/save.lua' with { type: 'text' }

/** Longer records are read only once there is room: thousands of concurrent calls may each ask for one of maximum size. */
export const longRecordBytes = 32 * 1024

const bounds = `local LONG_BYTES = ${longRecordBytes}`

/** Defines one script per operation on records. @param clockSource Lua that defines `clock()`, for tests that move it */
export function defineRecordScripts(clockSource: string = clockLua) {
  return {
    acquire: defineScript('acquire', '', [bounds, acquireHit, clockSource, meterLua, entry, acquire]),
    save: defineScript('save', '', [clockSource, meterLua, entry, save]),
    fetch: defineScript('fetch', 'no-writes', [bounds, fetch]),
    // Run also when Redis is full, since they free memory or keep a lock alive.
    remove: defineScript('remove', 'allow-oom', [clockSource, meterLua, entry, remove]),
    extend: defineScript('extend', 'allow-oom', [clockSource, meterLua, entry, extend]),
  }
}

/** Scripts by operation. */
export type RecordScripts = ReturnType<typeof defineRecordScripts>
