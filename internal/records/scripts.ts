import { defineScript, type RedisScript } from '#internal/storage/index.ts'
import { clockLua, meterLua } from '#internal/usage/index.ts'
import acquire from './scripts/acquire.lua' with { type: 'text' }
import acquireHit from './scripts/acquire-hit.lua' with { type: 'text' }
import entry from './scripts/entry.lua' with { type: 'text' }
import extend from './scripts/extend.lua' with { type: 'text' }
import fetch from './scripts/fetch.lua' with { type: 'text' }
import remove from './scripts/remove.lua' with { type: 'text' }
import save from './scripts/save.lua' with { type: 'text' }

/** One script per operation on records. */
export interface RecordScripts {
  readonly acquire: RedisScript
  readonly save: RedisScript
  readonly fetch: RedisScript
  readonly remove: RedisScript
  readonly extend: RedisScript
}

/**
 * A record of more bytes does not come before there is room for it: thousands of calls may be under way at a time, and each
 * may be for a record as long as the platform allows.
 */
export const longRecordBytes = 32 * 1024

const bounds = `local LONG_BYTES = ${longRecordBytes}`

/**
 * Puts each script together from the parts it uses.
 * @param clockSource Lua that defines `clock()`; tests pass one that they can move, everybody else the server's
 */
export function defineRecordScripts(clockSource: string = clockLua): RecordScripts {
  return {
    acquire: defineScript('acquire', '', [bounds, acquireHit, clockSource, meterLua, entry, acquire]),
    save: defineScript('save', '', [clockSource, meterLua, entry, save]),
    fetch: defineScript('fetch', 'no-writes', [bounds, fetch]),
    // These two free memory or keep a lock alive, so they run also when Redis is full.
    remove: defineScript('remove', 'allow-oom', [clockSource, meterLua, entry, remove]),
    extend: defineScript('extend', 'allow-oom', [clockSource, meterLua, entry, extend]),
  }
}
