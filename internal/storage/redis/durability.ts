import { ErrorReply } from 'redis'

/** Durability of a server's writes, as the server reports it. */
export interface RedisDurability {
  /**
   * Every write is on disk before it is answered, also while the file is rewritten: `appendonly`, `appendfsync` and
   * `no-appendfsync-on-rewrite`. False where CONFIG is forbidden.
   */
  readonly syncsFirst: boolean
  /** Replicas that the server counts as connected; undefined where it does not tell. */
  readonly replicas: number | undefined
}

/** Reply of a script with the durability of its writes. */
export interface KeptReply {
  readonly reply: unknown
  /** Replicas that have what the script wrote; 0 where none was waited for. */
  readonly replicasReached: number
  /** As the server that ran the script told afterwards, on the same connection. */
  readonly durability: RedisDurability
}

// Managed servers often forbid CONFIG, so INFO comes first: of commands sent together only the first one's refusal is an error.
/** The commands whose replies `parseDurability` reads, in order. */
export const durabilityCommands: readonly (readonly string[])[] = [
  ['INFO', 'replication'],
  ['CONFIG', 'GET', 'appendonly', 'appendfsync', 'no-appendfsync-on-rewrite'],
]

/**
 * The commands that follow a write.
 * @param waitMs how long one replica may take to have the write; 0 not to ask
 */
export function keepingCommands(waitMs: number): readonly (readonly string[])[] {
  return waitMs > 0 ? [['WAIT', '1', String(waitMs)], ...durabilityCommands] : durabilityCommands
}

/** Reads the replies to a write and to the `keepingCommands` behind it. */
export function parseKept(replies: readonly unknown[], waitMs: number): KeptReply {
  const [reply, ...kept] = replies
  const reached = waitMs > 0 ? kept.shift() : 0
  return {
    reply,
    replicasReached: typeof reached === 'number' ? reached : 0,
    durability: parseDurability(kept),
  }
}

/** Reads the replies to `durabilityCommands`; one that is an error counts as knowing nothing. */
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
