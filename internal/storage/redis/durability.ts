import { ErrorReply } from '@redis/client'

/** Durability of the writes to a server, as the server reports it. */
export interface RedisDurability {
  /**
   * True if every write is on disk before its reply, also while the append-only file is rewritten. Requires `appendonly`, `appendfsync` and
   * `no-appendfsync-on-rewrite` to be set accordingly. False if CONFIG is forbidden.
   */
  readonly syncsFirst: boolean
  /** Number of connected replicas; undefined if the server does not report it. */
  readonly replicas: number | undefined
}

/** Reply of a script with the durability of its writes. */
export interface KeptReply {
  readonly reply: unknown
  /** Number of replicas that acknowledged the writes of the script; 0 if the call did not wait for replicas. */
  readonly replicasReached: number
  /** Durability that the same server reported after the script. */
  readonly durability: RedisDurability
}

/**
 * Commands whose replies `parseDurability` reads, in this order. CONFIG must not be first: managed servers often forbid it, and an error
 * reply to the first command is thrown.
 */
export const durabilityCommands: readonly (readonly string[])[] = [
  ['INFO', 'replication'],
  ['CONFIG', 'GET', 'appendonly', 'appendfsync', 'no-appendfsync-on-rewrite'],
]

/**
 * Returns the commands that follow a write: a wait for one replica unless `waitMs` is 0, then the commands that read the durability of the
 * server.
 * @param waitMs maximum wait until one replica has the write; 0 for no wait
 */
export function keepingCommands(waitMs: number): readonly (readonly string[])[] {
  return waitMs > 0 ? [['WAIT', '1', String(waitMs)], ...durabilityCommands] : durabilityCommands
}

/** Parses the replies to a write and to its `keepingCommands`. */
export function parseKept(replies: readonly unknown[], waitMs: number): KeptReply {
  const [reply, ...kept] = replies
  const reached = waitMs > 0 ? kept.shift() : 0
  return {
    reply,
    replicasReached: typeof reached === 'number' ? reached : 0,
    durability: parseDurability(kept),
  }
}

/** Parses the replies to `durabilityCommands`. An error reply counts as unknown. */
export function parseDurability([info, settings]: readonly unknown[]): RedisDurability {
  const replicas = info instanceof ErrorReply ? undefined : /^connected_slaves:(\d+)/m.exec(String(info))?.[1]
  return {
    syncsFirst: syncsFirst(settings),
    replicas: replicas === undefined ? undefined : Number(replicas),
  }
}

function syncsFirst(settings: unknown): boolean {
  if (typeof settings !== 'object' || settings === null) return false
  const valueOf = (name: string) => (settings as Record<string, unknown>)[name]
  return (
    valueOf('appendonly') === 'yes' &&
    valueOf('appendfsync') === 'always' &&
    valueOf('no-appendfsync-on-rewrite') === 'no'
  )
}
