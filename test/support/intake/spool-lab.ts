import { Spool, type SpoolOptions, type SpoolRefusal, spoolKeys } from '#internal/intake/spool.ts'
import { openRedis, type RedisConnection } from '#internal/storage/index.ts'
import { command, startStandalone } from '../stores/redis-topology.ts'
import type { TestRedis } from '../stores.ts'
import { until } from '../until.ts'

/** Spool on a Redis of one test file. */
export interface SpoolLab {
  readonly server: TestRedis
  readonly redis: RedisConnection
  /** Refused events since the last `reset`. */
  readonly refusals: SpoolRefusal[]
  /** Creates a spool without cached state of the server. */
  spool(options?: Partial<SpoolOptions>): Spool
  /** Returns the entries of a stream, as fields by name. */
  entriesOf(key: string): Promise<Record<string, string>[]>
  /** Returns the spooled bytes by tenant. */
  shares(): Promise<Record<string, number>>
  /** Deletes all data. */
  reset(): Promise<void>
  stop(): Promise<void>
}

/** Starts a Redis with `appendfsync always`, and connects to it. */
export async function startSpoolLab(extraArgs: readonly string[] = []): Promise<SpoolLab> {
  const server = await startStandalone({ durable: true, extraArgs })
  const redis = openRedis({ url: server.url, deadlineMs: 1_500, onError: () => undefined })
  await until('a connection', () => redis.serverFacts().catch(() => undefined))
  const refusals: SpoolRefusal[] = []
  return {
    server,
    redis,
    refusals,
    spool: (options) =>
      new Spool({
        redis,
        vouched: false,
        onRefused: (reason, events) => refusals.push(...Array<SpoolRefusal>(events).fill(reason)),
        ...options,
      }),
    entriesOf: async (key) => {
      const [entries] = await command(server, ['XRANGE', key, '-', '+'])
      return (entries as [string, string[]][]).map(([, fields]) => Object.fromEntries(pairsOf(fields)))
    },
    shares: async () => {
      const [held] = await command(server, ['HGETALL', spoolKeys.tenants])
      return Object.fromEntries(
        Object.entries(held as Record<string, string>).map(([tenant, bytes]) => [tenant, Number(bytes)]),
      )
    },
    reset: async () => {
      refusals.length = 0
      await command(server, ['FLUSHALL'])
    },
    stop: async () => {
      await redis.close()
      await server.stop()
    },
  }
}

function pairsOf(fields: readonly string[]): [string, string][] {
  return Array.from({ length: fields.length / 2 }, (_none, nth) => [
    fields[nth * 2] ?? '',
    fields[nth * 2 + 1] ?? '',
  ])
}
