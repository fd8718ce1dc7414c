import { systemClock } from '#internal/base/index.ts'
import type { Scope } from '#internal/process/index.ts'
import { SettingsWatch, settingsChannel } from '#internal/settings/index.ts'
import { unlabelled } from '#internal/telemetry/index.ts'
import { startNews } from './news.ts'
import type { Stores } from './stores.ts'
import type { ProcessTelemetry } from './telemetry.ts'

/**
 * Follows the runtime settings for the scope's life. They were looked for once when this returns; where that failed, the defaults
 * are in force until Postgres answers.
 */
export async function openSettings(
  { pool, redis }: Stores,
  telemetry: ProcessTelemetry,
  scope: Scope,
): Promise<SettingsWatch> {
  const { log, health, metrics } = telemetry
  const settings = await scope.open({
    name: 'runtime settings',
    open: async () => {
      const opened = new SettingsWatch({ pool, clock: systemClock, log, health })
      await opened.start()
      return opened
    },
    close: (opened) => opened.stop(),
  })
  const { gauge } = unlabelled(metrics)
  gauge(
    'latchkey_settings_age_seconds',
    'Time since the runtime settings were last compared with Postgres.',
    () => {
      const ageMs = settings.ageMs(systemClock.now())
      return Number.isFinite(ageMs) ? ageMs / 1000 : -1
    },
  )
  gauge(
    'latchkey_settings_pauses_count',
    'Settings in force that pause forwarding or a provider, for all or for a tenant.',
    () => settings.current.pauses,
  )
  await startNews(
    {
      name: 'settings news',
      channel: settingsChannel,
      onMessage: () => settings.notify(),
      missing: 'not subscribed to settings news yet',
    },
    redis,
    telemetry,
    scope,
  )
  return settings
}
