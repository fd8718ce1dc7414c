import type { Clock } from '#internal/base/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'
import { type RuntimeSettings, toRuntimeSettings } from './definitions.ts'
import { readSettings, readSettingsVersion } from './store.ts'

/** The caller closes the pool. */
export interface SettingsWatchOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Pick<Logger, 'info'>
}

/**
 * Keeps the runtime settings in memory: the defaults before the first read, and the last known settings while Postgres is unavailable. The
 * owner must call `look` periodically.
 */
export class SettingsWatch {
  readonly #options: SettingsWatchOptions
  readonly #listeners: ((settings: RuntimeSettings) => void)[] = []
  #current = toRuntimeSettings()
  #isRead = false
  #lookedAtMs = Number.NEGATIVE_INFINITY

  constructor(options: SettingsWatchOptions) {
    this.#options = options
  }

  /** Read this for each use, since a change replaces the object. */
  get current(): RuntimeSettings {
    return this.#current
  }

  /** The defaults apply until the first successful read. */
  get isRead(): boolean {
    return this.#isRead
  }

  /** Time since the last successful read from Postgres; Infinity before the first. */
  ageMs(nowMs: number): number {
    return Math.max(0, nowMs - this.#lookedAtMs)
  }

  /** Adds a listener for the first read and every later change. It must not throw, and it cannot be removed. */
  onChange(listener: (settings: RuntimeSettings) => void): void {
    this.#listeners.push(listener)
  }

  /** Applies the current settings and every later change, for code that uses them too often to read `current`. `apply` must not throw. */
  follow(apply: (settings: RuntimeSettings) => void): void {
    apply(this.#current)
    this.onChange(apply)
  }

  /** Reads the version, and all settings if the version changed. @throws errors of Postgres; the current settings stay unchanged */
  async look(): Promise<void> {
    const { pool, clock, log } = this.#options
    const before = this.#current.version
    // The version of a restored database can be lower, so any difference causes a read.
    if (!this.#isRead || (await readSettingsVersion(pool)) !== before) {
      this.#current = toRuntimeSettings(await readSettings(pool))
      this.#isRead = true
      const settingsVersion = this.#current.version
      if (settingsVersion !== before) log.info({ settingsVersion, before }, 'runtime settings loaded')
      for (const listener of this.#listeners) listener(this.#current)
    }
    this.#lookedAtMs = clock.now()
  }
}

/** Redis channel that notifies all processes that a setting was written. The message is empty. */
export const settingsChannel = 'latchkey:settings'

/**
 * Notifies all processes that settings changed. Repeating it is harmless. @throws RedisUnavailable; processes then find the change by
 * polling
 */
export async function tellSettings(redis: RedisConnection): Promise<void> {
  await redis.publish(settingsChannel, '')
}
