import { createHash } from 'node:crypto'

/** A Lua script that Redis runs as one atomic step. */
export interface RedisScript {
  readonly name: string
  readonly source: string
  /** SHA-1 of the source, which EVALSHA uses as the script's name. */
  readonly sha: string
}

/**
 * Joins the parts of a script and computes its digest for EVALSHA.
 * @param flags flags of the Redis 7 shebang, such as `no-writes`; an empty text means no flags
 */
export function defineScript(name: string, flags: string, parts: readonly string[]): RedisScript {
  const source = [flags === '' ? '#!lua' : `#!lua flags=${flags}`, ...parts].join('\n')
  return { name, source, sha: createHash('sha1').update(source).digest('hex') }
}
