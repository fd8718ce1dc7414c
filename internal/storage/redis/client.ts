import { createHash } from 'node:crypto'
import { tracingChannel } from 'node:diagnostics_channel'
import { ErrorReply } from '@redis/client'
import { Deadlines } from '#internal/base/index.ts'
import { type StoreAddress, TlsFailure, tlsReader } from '../tls.ts'
import { createDriver, type RedisDriver } from './driver.ts'
import {
  durabilityCommands,
  type KeptReply,
  keepingCommands,
  parseDurability,
  parseKept,
  type RedisDurability,
} from './durability.ts'
import {
  type ChannelListener,
  type RedisFailure,
  type RedisServerFacts,
  RedisUnavailable,
} from './session.ts'
import { parseRedisUrl } from './url.ts'

/** A Lua script that Redis runs as one atomic step. */
export interface RedisScript {
  readonly name: string
  readonly source: string
  /** SHA-1 of the source, by which EVALSHA names the script. */
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

/** Options of a Redis connection. */
export interface RedisOptions extends StoreAddress {
  /** URL that `parseRedisUrl` accepts. With `tls`, its scheme must start with `rediss`. */
  readonly url: string
  /** Bounds each command; a command that exceeds it throws RedisUnavailable. Default 800 ms. */
  readonly deadlineMs?: number
  /** Called for every failed attempt to connect and every lost connection, about once per second and server. */
  readonly onError: (error: unknown) => void
  /** Called for each refused call. Must not throw. */
  readonly onRefused?: (reason: RedisFailure) => void
}

const defaultDeadlineMs = 800
/** Maximum calls in flight per process, including those whose caller has already timed out. */
const inFlightMax = 10_000

/**
 * Opens a connection that reconnects automatically. Returns immediately. Until Redis replies, every call throws RedisUnavailable.
 * @throws RangeError for an invalid URL
 */
export function openRedis(options: RedisOptions): RedisConnection {
  completeTracingChannel()
  const address = parseRedisUrl(options.url)
  if (options.tls !== undefined && !address.tls)
    throw new RangeError('TLS settings for Redis need a URL that starts with rediss')
  const readTls = address.tls ? tlsReader(options.tls ?? {}) : undefined
  return new Connection((onError) => createDriver({ ...address, readTls }, onError), options)
}

/** Connection to a standalone Redis, to a master behind Sentinels, or to a Cluster. Reconnects until `close`. */
export type RedisConnection = Pick<Connection, keyof Connection>

class Connection {
  readonly #driver: RedisDriver
  readonly #deadlines: Deadlines
  readonly #onRefused: ((reason: RedisFailure) => void) | undefined
  #tlsFailure: string | undefined
  #inFlight = 0
  #closed = false

  constructor(drive: (onError: (error: unknown) => void) => RedisDriver, options: RedisOptions) {
    this.#driver = drive((error) => {
      if (error instanceof TlsFailure) this.#tlsFailure = error.message
      options.onError(error)
    })
    this.#deadlines = new Deadlines(options.deadlineMs ?? defaultDeadlineMs)
    this.#onRefused = options.onRefused
  }

  /**
   * Runs a script in one round trip. All keys must share one hash tag.
   * @throws RedisUnavailable within the connection's deadline; the script may still have run
   */
  evaluate(script: RedisScript, keys: readonly string[], args: readonly string[]): Promise<unknown> {
    const key = keys[0] ?? ''
    const command = ['EVALSHA', script.sha, String(keys.length), ...keys, ...args]
    return this.#bounded(
      () => this.#driver.send(key, command),
      async (error) => {
        if (!isUnknownScript(error)) throw error
        return this.#driver.send(key, ['EVAL', script.source, ...command.slice(2)])
      },
    )
  }

  /** Reads plain values in one round trip, null for each missing key. All keys must share one hash tag. @throws RedisUnavailable */
  read(keys: readonly string[]): Promise<readonly (string | null)[]> {
    const values = this.#bounded(() => this.#driver.send(keys[0] ?? '', ['MGET', ...keys]))
    return values as Promise<readonly (string | null)[]>
  }

  /**
   * Runs a script, waits until one replica has its writes, and reads the durability of the server, in one round trip on one connection. The
   * wait blocks later commands on that connection, so the caller should use a separate one.
   * @param waitMs below the connection's deadline; 0 for no wait, for example without replicas
   * @throws RedisUnavailable within the connection's deadline; the script may still have run
   */
  async evaluateKept(
    script: RedisScript,
    keys: readonly string[],
    args: readonly string[],
    waitMs: number,
  ): Promise<KeptReply> {
    const key = keys[0] ?? ''
    const command = ['EVALSHA', script.sha, String(keys.length), ...keys, ...args]
    const behind = keepingCommands(waitMs)
    const replies = await this.#bounded(
      () => this.#driver.sendTogether(key, [command, ...behind]),
      async (error) => {
        if (!isUnknownScript(error)) throw error
        return this.#driver.sendTogether(key, [['EVAL', script.source, ...command.slice(2)], ...behind])
      },
    )
    return parseKept(replies, waitMs)
  }

  /** @throws RedisUnavailable */
  async durability(key: string): Promise<RedisDurability> {
    return parseDurability(await this.#bounded(() => this.#driver.sendTogether(key, durabilityCommands)))
  }

  /**
   * Adds a listener of a sharded channel until `unsubscribe`, across reconnects and failovers. A channel can have several listeners.
   * Resolves once the server has confirmed the subscription.
   * @throws RedisUnavailable; the subscription is still made as soon as Redis is available
   */
  async subscribe(channel: string, listener: ChannelListener): Promise<void> {
    await this.#bounded(() => this.#driver.channels.subscribe(channel, listener))
  }

  /** Ends the subscription of all listeners of a channel. Idempotent. */
  async unsubscribe(channel: string): Promise<void> {
    if (!this.#closed) await this.#bounded(() => this.#driver.channels.unsubscribe(channel))
  }

  /** Publishes on a sharded channel. Returns the number of subscribers that got the message. @throws RedisUnavailable */
  async publish(channel: string, message: string): Promise<number> {
    return Number(await this.#bounded(() => this.#driver.send(channel, ['SPUBLISH', channel, message])))
  }

  /** Reads facts by `INFO` from all connected masters. @throws RedisUnavailable if no master is connected */
  async serverFacts(): Promise<readonly RedisServerFacts[]> {
    const replies = await this.#bounded(() => this.#driver.sendToMasters(['INFO']))
    this.#tlsFailure = undefined
    return replies.map((reply) => parseInfo(String(reply)))
  }

  /** Last TLS failure, such as `TLS: certificate not trusted (…)`, until `serverFacts` succeeds. */
  tlsFailure(): string | undefined {
    return this.#tlsFailure
  }

  /** Closes all connections and rejects calls in flight. Idempotent. */
  async close(): Promise<void> {
    this.#closed = true
    this.#driver.close()
  }

  /**
   * Bounds the duration of a call and the calls in flight. Converts failures of the store to RedisUnavailable.
   * @param again repeats the call after an error that it can recover from, and throws any other error
   */
  #bounded<T>(call: () => Promise<T>, again?: (error: unknown) => Promise<T>): Promise<T> {
    if (this.#closed) return Promise.reject(this.#refuse('disconnected'))
    if (this.#inFlight >= inFlightMax) return Promise.reject(this.#refuse('overloaded'))
    this.#inFlight += 1
    let isLate = false
    const late = () => {
      isLate = true
      throw this.#refuse('timeout')
    }
    return this.#deadlines.guard(call(), late, this.#ended, async (error) => {
      try {
        if (!again) throw error
        return await again(error)
      } catch (left) {
        const reason = reasonOf(left)
        // If the call failed after its deadline, it was already refused and counted.
        throw reason === undefined || isLate ? left : this.#refuse(reason, left)
      }
    })
  }

  #refuse(reason: RedisFailure, cause?: unknown): RedisUnavailable {
    this.#onRefused?.(reason)
    return cause instanceof RedisUnavailable ? cause : new RedisUnavailable(reason, cause)
  }

  readonly #ended = (): void => {
    this.#inFlight -= 1
  }
}

function isUnknownScript(error: unknown): boolean {
  return error instanceof ErrorReply && error.message.startsWith('NOSCRIPT')
}

/** Error codes of a server that is loading, failing over or out of disk space, or that rejects the sign-in. */
const refusals = new Set([
  'LOADING',
  'READONLY',
  'MASTERDOWN',
  'CLUSTERDOWN',
  'TRYAGAIN',
  'MISCONF',
  'BUSY',
  'NOREPLICAS',
  'MOVED',
  'ASK',
  'NOAUTH',
  'WRONGPASS',
  'NOPERM',
])

/** Returns the reason of a failure of Redis; undefined if the error is a bug in Latchkey. */
function reasonOf(error: unknown): RedisFailure | undefined {
  if (error instanceof RedisUnavailable) return error.reason
  if (error instanceof ErrorReply) {
    // By convention of the protocol, an error reply begins with a code in capitals:
    // https://redis.io/docs/latest/develop/reference/protocol-spec/#simple-errors (2026-11)
    const code = error.message.split(' ', 1)[0] ?? ''
    if (code === 'OOM') return 'full'
    return refusals.has(code) ? 'refused' : undefined
  }
  return error instanceof TypeError || error instanceof RangeError ? undefined : 'disconnected'
}

function parseInfo(text: string): RedisServerFacts {
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(text)?.[1] ?? ''
  return { version: field('redis_version'), maxmemoryPolicy: field('maxmemory_policy') }
}

const tracingEvents = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const

/**
 * Adds `hasSubscribers` to TracingChannel, which Bun 1.4.5 lacks
 * (https://nodejs.org/api/diagnostics_channel.html#tracingchannelhassubscribers, read 2026-11). Without it, node-redis prepares trace data
 * for every command although there are no subscribers, which costs more than encoding the command. Safe to repeat.
 */
export function completeTracingChannel(): void {
  const prototype = Object.getPrototypeOf(tracingChannel('latchkey:probe')) as object
  if ('hasSubscribers' in prototype) return
  Object.defineProperty(prototype, 'hasSubscribers', {
    configurable: true,
    get(this: Record<(typeof tracingEvents)[number], { readonly hasSubscribers: boolean }>) {
      return tracingEvents.some((event) => this[event].hasSubscribers)
    },
  })
}
