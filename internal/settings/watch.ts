import type { Clock } from '#internal/base/index.ts'
import type { Pool, RedisConnection } from '#internal/storage/index.ts'
import type { Logger } from '#internal/telemetry/index.ts'
import { type RuntimeSettings, toRuntimeSettings } from './definitions.ts'
import { readSettings, readSettingsVersion } from './store.ts'

/** Options of a watch. The caller closes the pool. */
export interface SettingsWatchOptions {
  readonly pool: Pool
  readonly clock: Clock
  readonly log: Pick<Logger, 'info'>
}

/**
 * The runtime settings in memory: the defaults before the first read, and the last ones read while Postgres is unavailable. Its owner
 * polls `look`.
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

  /** Adds a listener for the first read and every change, for the watch's life. It must not throw. */
  onChange(listener: (settings: RuntimeSettings) => void): void {
    this.#listeners.push(listener)
  }

  /** Reads the version, and all settings if it changed. @throws errors of Postgres; the settings in force stay */
  async look(): Promise<void> {
    const { pool, clock, log } = this.#options
    const before = this.#current.version
    // Any other version, not only a higher one: a restored database goes back.
    if (!this.#isRead || (await readSettingsVersion(pool)) !== before) {
      this.#current = toRuntimeSettings(await readSettings(pool))
      this.#isRead = true
      const settingsVersion = this.#current.version
      if (settingsVersion !== before) log.info({ settingsVersion, before }, 'runtime settings are in force')
      for (const listener of this.#listeners) listener(this.#current)
    }
    this.#lookedAtMs = clock.now()
  }
}

/** Redis channel that wakes all processes after a write of settings. The message is empty. */
export const settingsChannel = 'latchkey:settings'

/** Notifies all processes of changed settings. Repeating it is harmless. @throws RedisUnavailable: processes then poll */
export async function tellSettings(redis: RedisConnection): Promise<void> {
  await redis.publish(settingsChannel, '')
}
