import { createHash } from 'node:crypto'

/** A Lua script that Redis runs as one atomic step. */
export interface RedisScript {
  readonly name: string
  readonly source: string
  /** SHA-1 of the source, by which EVALSHA calls it. */
  readonly sha: string
}

/**
 * Joins the parts of a script and computes the digest that EVALSHA needs.
 * @param flags of Redis 7's shebang, such as `no-writes`; empty for none
 */
export function defineScript(name: string, flags: string, parts: readonly string[]): RedisScript {
  const source = [flags === '' ? '#!lua' : `#!lua flags=${flags}`, ...parts].join('\n')
  return { name, source, sha: createHash('sha1').update(source).digest('hex') }
}
