import { systemClock } from '#internal/base/index.ts'
import type { Config } from '#internal/config/index.ts'
import type { CallbackBounds } from '#internal/egress/index.ts'
import { SettingsWatch, settingsChannel } from '#internal/settings/index.ts'
import { Sampler, unlabelled } from '#internal/telemetry/index.ts'
import { openLoop, startSubscription } from './loop.ts'
import type { Stores } from './stores.ts'
import type { Host } from './telemetry.ts'

/** Poll interval in ms. With the loop's jitter of 10 %, the interval stays below one second. */
const intervalMs = 900
const turnMsMax = 10_000
/** Delays in ms after failed reads. At most 1 s, so that settings apply within one second after Postgres is available again. */
const backoff = { firstMs: 250, maxMs: 1_000 }

/**
 * Watches the runtime settings until the scope closes. Tries to read the settings once before it returns; if that fails, the defaults apply
 * until Postgres is reachable.
 */
export async function openSettings(host: Host, { pool, redis }: Stores): Promise<SettingsWatch> {
  const { log, metrics } = host
  const settings = new SettingsWatch({ pool, clock: systemClock, log })
  await settings.look().catch(() => undefined)
  const loop = await openLoop(host, {
    name: 'runtime settings',
    intervalMs,
    turnMsMax,
    backoff,
    runOnce: () => settings.look(),
    onError: (cause, failures) =>
      log.warn(
        { cause, failures, isRead: settings.isRead },
        'runtime settings read failed; the last ones apply',
      ),
  })
  const { gauge } = unlabelled(metrics)
  gauge(
    'latchkey_settings_age_seconds',
    'Seconds since the runtime settings were last read from Postgres; -1 before the first read.',
    () => {
      const ageMs = settings.ageMs(systemClock.now())
      return Number.isFinite(ageMs) ? ageMs / 1000 : -1
    },
  )
  gauge(
    'latchkey_settings_pauses_count',
    'Number of active pause settings: forwarding or a provider paused, globally or for a tenant.',
    () => settings.current.pauses,
  )
  await startSubscription(host, redis, {
    name: 'settings subscription',
    channel: settingsChannel,
    onMessage: () => loop.wake(),
  })
  return settings
}

/**
 * Returns the platform's limits on callback addresses from the settings. By default only public addresses and standard ports are allowed.
 */
export function callbackBoundsOf({
  callbackCidrsMax = [],
  callbackPorts = [],
}: Pick<Config<'forwarder'>, 'callbackCidrsMax' | 'callbackPorts'>): CallbackBounds {
  return { cidrsMax: callbackCidrsMax, ports: callbackPorts }
}

/** Creates the sampler of log lines. The settings determine the share of lines that it keeps. */
export function createLogSampler(settings: SettingsWatch): Sampler {
  const sampler = new Sampler()
  settings.follow(({ logShare }) => {
    sampler.share = logShare
  })
  return sampler
}
