import { defineScript } from '#internal/storage/index.ts'
import { clockLua, meterLua } from '#internal/usage/index.ts'
import acquire from './scripts/acquire.lua' with { type: 'text' }
import acquireHit from './scripts/acquire-hit.lua' with { type: 'text' }
import entry from './scripts/entry.lua' with { type: 'text' }
import extend from './scripts/extend.lua' with { type: 'text' }
import fence from './scripts/fence.lua' with { type: 'text' }
import fetch from './scripts/fetch.lua' with { type: 'text' }
import forget from './scripts/forget.lua' with { type: 'text' }
import place from './scripts/place.lua' with { type: 'text' }
import remove from './scripts/remove.lua' with { type: 'text' }
import save from './scripts/save.lua' with { type: 'text' }

/** Maximum size of a record that is read without reserved memory: thousands of calls can read records of this size at once. */
export const longRecordBytes = 32 * 1024

const bounds = `local LONG_BYTES = ${longRecordBytes}`

/** @param clockSource Lua that defines `clock()`; tests use it to move the clock */
export function defineRecordScripts(clockSource: string = clockLua) {
  return {
    acquire: defineScript('acquire', '', [bounds, acquireHit, clockSource, meterLua, place, entry, acquire]),
    save: defineScript('save', '', [clockSource, meterLua, place, entry, save]),
    fetch: defineScript('fetch', 'no-writes', [bounds, place, fetch]),
    fence: defineScript('fence', 'no-writes', [fence]),
    // These scripts also run when Redis is full, since they free memory or keep a lock alive.
    remove: defineScript('remove', 'allow-oom', [clockSource, meterLua, place, entry, remove]),
    forget: defineScript('forget-mark', 'allow-oom', [clockSource, meterLua, place, entry, forget]),
    extend: defineScript('extend', 'allow-oom', [clockSource, meterLua, place, entry, extend]),
  }
}

export type RecordScripts = ReturnType<typeof defineRecordScripts>
