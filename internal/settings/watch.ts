import type { Clock } from '#internal/base/index.ts'
import { type SupervisedLoop, superviseLoop } from '#internal/process/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Health, Logger } from '#internal/telemetry/index.ts'
import { type RuntimeSettings, toRuntimeSettings } from './definitions.ts'
import { readSettings, readSettingsVersion } from './store.ts'

/** Options of a watch. The caller closes the pool. */
export interface SettingsWatchOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Pick<Logger, 'info' | 'warn'>
  /** Longest wait between two looks, default 1 s. */
  readonly pollMs?: number
  /** Heartbeat of the watch's polling loop. */
  readonly health?: Health
}

/** Called when settings change. Must not throw. */
export type SettingsListener = (settings: RuntimeSettings) => void

/** Waits after failed looks: never longer than Postgres may stay unnoticed once it is back. */
const failureWaits = { firstMs: 250, maxMs: 1_000 }
/** Share by which the wait between looks varies. */
const jitter = 0.1
const lookMsMax = 10_000

/**
 * The runtime settings in memory. Looks for changes each second and whenever it is told of news; while Postgres is away what was
 * read last stays in force, and as long as nothing was read, the defaults.
 */
export class SettingsWatch {
  readonly #options: SettingsWatchOptions
  readonly #listeners: SettingsListener[] = []
  readonly #firstLook = Promise.withResolvers<void>()
  #current = toRuntimeSettings()
  #isRead = false
  #lookedAtMs = Number.NEGATIVE_INFINITY
  #failures = 0
  #stopped = false
  #loop: SupervisedLoop | undefined

  constructor(options: SettingsWatchOptions) {
    this.#options = options
  }

  /** Settings in force. Read it each time: a change replaces the object. */
  get current(): RuntimeSettings {
    return this.#current
  }

  /** False while the defaults are in force because nothing was read yet. */
  get isRead(): boolean {
    return this.#isRead
  }

  /** Milliseconds since the last successful look at Postgres, Infinity before the first. */
  ageMs(nowMs: number): number {
    return Math.max(0, nowMs - this.#lookedAtMs)
  }

  /** Adds somebody to be told of every change, for the watch's life; also of the first read. */
  onChange(listener: SettingsListener): void {
    this.#listeners.push(listener)
  }

  /** Says that something changed: looks at once instead of at the next poll. Cheap, may be called any number of times. */
  notify(): void {
    this.#loop?.wake()
  }

  /** Resolves when the first look has ended, well or not; goes on trying with bounded waits. Repeating it is harmless. */
  start(): Promise<void> {
    if (!this.#stopped) this.#loop ??= this.#startLoop()
    return this.#firstLook.promise
  }

  /** Ends after the look under way, whose bound is the pool's. What is in force stays. Safe to repeat. */
  async stop(): Promise<void> {
    this.#stopped = true
    await this.#loop?.stop()
    this.#firstLook.resolve()
  }

  #startLoop(): SupervisedLoop {
    const { health, pollMs = 1_000 } = this.#options
    return superviseLoop({
      name: 'runtime settings',
      // With its jitter it is no longer than was promised.
      intervalMs: pollMs / (1 + jitter),
      jitter,
      turnMsMax: lookMsMax,
      backoff: failureWaits,
      runOnce: () => this.#look(),
      onError: (cause, failures) => {
        this.#failures = failures
        const fields = { cause, failures, isRead: this.#isRead }
        this.#options.log.warn(fields, 'runtime settings could not be read, they stay as they were')
        this.#firstLook.resolve()
      },
      ...(health && { health }),
    })
  }

  async #look(): Promise<void> {
    const { pool, clock, log } = this.#options
    // Another number, not only a higher one: a restored database goes back.
    if (!this.#isRead || (await readSettingsVersion(pool)) !== this.#current.version) {
      this.#put(toRuntimeSettings(await readSettings(pool)))
    }
    this.#lookedAtMs = clock.now()
    if (this.#failures > 0) log.info({ failures: this.#failures }, 'runtime settings are read again')
    this.#failures = 0
    this.#firstLook.resolve()
  }

  #put(settings: RuntimeSettings): void {
    const before = this.#current.version
    this.#current = settings
    this.#isRead = true
    if (before !== settings.version)
      this.#options.log.info({ settingsVersion: settings.version, before }, 'runtime settings are in force')
    for (const listener of this.#listeners) listener(settings)
  }
}

/** The channel on which whoever wrote settings says so, for all processes. The message means nothing. */
export const settingsChannel = 'latchkey:settings'

/** Tells all processes that settings changed. Repeating it is harmless. @throws RedisUnavailable: they will poll */
export async function tellSettings(redis: RedisConnection): Promise<void> {
  await redis.publish(settingsChannel, '')
}
