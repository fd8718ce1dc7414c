import { ErrorReply } from '@redis/client'

/** Durability of the writes to a server, as the server reports it. */
export interface RedisDurability {
  /**
   * True if every write is on disk before its reply, also during a rewrite of the append-only file. Requires matching values of
   * `appendonly`, `appendfsync` and `no-appendfsync-on-rewrite`. False if CONFIG is forbidden.
   */
  readonly syncsFirst: boolean
  /** Connected replicas; undefined if the server does not report them. */
  readonly replicas: number | undefined
}

export interface KeptReply {
  readonly reply: unknown
  /** Replicas that acknowledged the writes of the script; 0 if the call did not wait for replicas. */
  readonly replicasReached: number
  readonly durability: RedisDurability
}

/** Commands that read the durability. CONFIG must not be first: managed servers often forbid it, and an error of the first is thrown. */
export const durabilityCommands: readonly (readonly string[])[] = [
  ['INFO', 'replication'],
  ['CONFIG', 'GET', 'appendonly', 'appendfsync', 'no-appendfsync-on-rewrite'],
]

/**
 * Returns the commands that follow a write, which wait for a replica and read the durability.
 * @param waitMs maximum wait until one replica has the write; 0 for no wait
 */
export function keepingCommands(waitMs: number): readonly (readonly string[])[] {
  return waitMs > 0 ? [['WAIT', '1', String(waitMs)], ...durabilityCommands] : durabilityCommands
}

export function parseKept(replies: readonly unknown[], waitMs: number): KeptReply {
  const [reply, ...kept] = replies
  const reached = waitMs > 0 ? kept.shift() : 0
  return {
    reply,
    replicasReached: typeof reached === 'number' ? reached : 0,
    durability: parseDurability(kept),
  }
}

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
